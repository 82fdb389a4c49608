"""How fast this machine is: a fixed piece of work in the box, so that seconds of different machines can be compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rewardrate.errors import InputError
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.limits import GIB, Limits
from rewardrate.sandbox.pool import Pool
from rewardrate.sandbox.result import Result

REFERENCE_SECONDS = 1.0
"Best of five on the machine of the published numbers (two virtual cores, Linux 6.18, Python 3.11, numpy 2.4)."
# One core: what scripts spend their time on is the interpreter, matrix products and memory, in about equal parts.
KERNEL = """
import numpy as np
total = 0
for i in range(4_000_000):
    total += i * i % 7
numbers = np.random.default_rng(0)
a, b = numbers.normal(size=(2, 900, 900))
for _ in range(8):
    a = a @ b / 30
for _ in range(5):
    np.sort(numbers.normal(size=600_000))
assert np.isfinite(a).all()
"""


@dataclass(frozen=True)
class Calibration:
    """The speed of one core of this machine, as seen by a script in the box."""

    seconds: float
    "The best of the runs: what is least disturbed is nearest to the machine itself."
    score: float
    "REFERENCE_SECONDS / seconds: 2 means that scripts take about half the reference machine's time."
    spread: float
    "(slowest - fastest) / fastest: above 0.15 the machine is too busy for its seconds to mean much."
    runs: int
    level: str
    contaminated: int
    "Runs that something else disturbed."


def calibrate(runs: int = 5, *, python: str | None = None, level: str | None = None) -> Calibration:
    """Run the fixed kernel `runs` times on one core and score the machine by the best. Fails where numpy is missing.

    The score compares machines for work like the kernel's. It says nothing of work that is bound by many cores, disk
    or memory beyond the caches, and seconds are never rescaled by it silently: store it beside them.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise InputError("runs", runs, "it must be a whole number of at least 1")
    job = Job(KERNEL, Limits(seconds=120, memory_bytes=GIB, cores=1), python=python, level=level, minimum="limits")
    with Pool(1, repeats=0) as pool:
        results = pool.run([job] * runs)
    for result in results:
        _must_be_well(result, job)
    seconds = [result.seconds for result in results]
    best = min(seconds)
    disturbed = sum(result.contaminated for result in results)
    return Calibration(
        seconds=best,
        score=REFERENCE_SECONDS / best,
        spread=max(seconds) / best - 1,
        runs=runs,
        level=results[0].level,
        contaminated=disturbed,
    )


def _must_be_well(result: Result, job: Job) -> None:
    if result.status != "ok":
        last = (result.stderr.strip().splitlines() or [result.message])[-1]
        rule = f"the calibration kernel ended as {result.status} ({last})"
        raise InputError("python", job.python or sys.executable, rule, "it needs an interpreter with numpy")
