"""Speed of `schedule = "stream"` over `step` at equal attempts: the real loops, rate and run log, a simulated clock.

    python benchmarks/bench_stream.py [--chains 16 128 1000] [--ages 4 8] [--runs 5] [--updates 60] [--slots 0.5]
        [--out FOLDER]

As many slots as chains, or that share of them; attempt i takes the same seconds in both schedules. Spread: 95th over
5th percentile of lognormal seconds with mean 1; a task's name: the measured seconds of its reference scripts, over
their mean. Writing and learning take no time, but for the row "with a policy": there a call takes 0.02 (writing) and
0.25 (learning) of the mean seconds of an attempt, during which running attempts continue and none begins.
"""

from __future__ import annotations

import argparse
import csv
import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from rewardrate.environments.mle.folder import load, shipped
from simulated_cluster import play

Draw = Callable[[int, np.random.Generator], np.ndarray]
SPREADS = (3.0, 10.0, 100.0)
HEAD = ("case", "chains", "max_age", "runs", "speed", "speed_half", "busy_step", "busy", "busy_half", "mean_age",
        "largest_age", "loop_ms_per_attempt")  # fmt: skip


def lognormal(spread: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """Seconds with mean 1."""
    deviation = math.log(spread) / (2 * 1.645)
    return np.exp(deviation * rng.standard_normal(size) - deviation**2 / 2)


def scripts(task: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """Seconds of a task's reference scripts, drawn with equal chances, in means of them; each run 5 % off its own."""
    with (load(task).folder / "leaderboard.csv").open(encoding="utf-8") as file:
        measured = np.array([float(row["seconds"]) for row in csv.DictReader(file)])
    drawn = rng.choice(measured, size) * np.exp(0.05 * rng.standard_normal(size))
    return drawn / measured.mean()


def judge(
    name: str, draw: Draw, chains: int, ages: list[int], options: argparse.Namespace, **costs: float
) -> list[dict[str, Any]]:
    """Both schedules on the same attempts, run by run; one row for each bound on age."""
    step: list[Any] = []
    found: dict[int, list[Any]] = {age: [] for age in ages}
    for number in range(options.runs):
        rng = np.random.default_rng([options.seed, chains, number])
        seconds = draw((options.updates + max(ages) + 2) * chains, rng)
        slots = max(1, round(options.slots * chains))
        step.append(play(seconds, chains, options.updates, None, slots=slots, **costs))
        for age in ages:
            found[age].append(play(seconds, chains, options.updates, age, slots=slots, **costs))
    rows = []
    for age, played in found.items():
        speed = np.array([first.seconds / one.seconds for first, one in zip(step, played, strict=True)])
        busy = np.array([one.busy for one in played])
        every = np.concatenate([one.ages for one in played])
        waited, own = np.mean([one.busy for one in step]), 1000 * np.mean([one.own for one in played])
        values = (name, chains, age, options.runs, speed.mean(), half(speed), waited, busy.mean(), half(busy))
        values += (every.mean(), int(every.max()), own)
        rows.append(dict(zip(HEAD, values, strict=True)))
        print("  ".join(f"{one:.3g}" if isinstance(one, float) else f"{one}" for one in values), flush=True)
    return rows


def half(values: np.ndarray) -> float:
    """Half of the 95 % interval of a mean over runs (Student's t)."""
    if values.size < 2:
        return math.nan
    return float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))


def main() -> None:
    """One line a row; the table goes into --out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--chains", type=int, nargs="+", default=[16, 128, 1000])
    parser.add_argument("--ages", type=int, nargs="+", default=[2, 4, 6, 8, 12])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--slots", type=float, default=1.0, help="slots for each chain")
    parser.add_argument("--tasks", nargs="*", default=list(shipped()), help="none: no tasks")
    parser.add_argument("--spreads", type=float, nargs="*", default=SPREADS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("  ".join(HEAD))
    for chains in options.chains:
        for spread in options.spreads:
            draw = functools.partial(lognormal, spread)
            rows += judge(f"spread {spread:g}", draw, chains, options.ages, options)
            if spread == 10:
                rows += judge("spread 10, with a policy", draw, chains, options.ages, options, write=0.02, learn=0.25)
        for task in options.tasks:
            rows += judge(task, functools.partial(scripts, task), chains, options.ages, options)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        with (options.out / "speed.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, HEAD, lineterminator="\n")
            writer.writeheader()
            writer.writerows([{k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])


if __name__ == "__main__":
    main()
