"""What the box costs: outside the measured window, inside it, and per second of a pool; side by side in one run.

    python benchmarks/bench_sandbox.py [--runs 100] [--pairs 5] [--scripts 100]

Overhead: everything `run` does outside the measured window, for a script that does nothing, at each level that works
here. Bias: a scikit-learn script of about two seconds in the box against bare, on the same pinned core, in turn; the
ratio of the minima must be within 5 %. Throughput: scripts per second of a pool, fresh interpreters against a warm
server.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rewardrate.sandbox import Job, Limits, Pool, cores, run
from rewardrate.sandbox.job_template import environment
from rewardrate.sandbox.levels import LEVELS
from rewardrate.sandbox.runner import choose, isolation

SMALL = Limits(seconds=60, memory_bytes=2**30, cores=1)
WORK = """
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
numbers = np.random.default_rng(0)
X = numbers.normal(size=(2000, 20))
GradientBoostingClassifier(n_estimators=60, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
"""
SHORT = "import numpy as np\nfrom sklearn.linear_model import Ridge\nRidge().fit(np.eye(50), np.arange(50))"


def python_for(level: str) -> str:
    """Our interpreter, or the system's where the script runs as another user that may not reach ours."""
    return "/usr/bin/python3" if level.startswith("uid") else sys.executable


def overheads(level: str, runs: int, script: str = "pass", clock: str = "wall") -> tuple[float, float, float]:
    """Median and 90th percentile of the overhead, and the median of the script itself, in seconds."""
    found = []
    for _ in range(runs + 1):
        result = run(script, SMALL, level=level, minimum="limits", python=python_for(level), clock=clock)
        assert result.status == "ok", result.message or result.stderr
        found.append(result)
    spent = sorted(result.overhead_seconds for result in found[1:])  # the first one starts the launcher
    inside = statistics.median(result.seconds for result in found[1:])
    return statistics.median(spent), spent[int(0.9 * (len(spent) - 1))], inside


def bare(script: Path, core: int) -> float:
    """Seconds of the script without a box, on one core, with the environment it has in the box."""
    variables = environment(Job(""), 1, str(script.parent), str(script.parent))
    command = ["taskset", "-c", str(core), sys.executable, script.name]
    start = time.monotonic()
    subprocess.run(command, env=variables, cwd=script.parent, check=True)
    return time.monotonic() - start


def bias(pairs: int, text: str = WORK) -> tuple[float, float]:
    """The fastest of `pairs` runs in the box, and bare on the same core, in turn."""
    boxed, plain = [], []
    before, core = os.sched_getaffinity(0), cores.usable()[0]
    os.sched_setaffinity(0, {core})  # so that the box gets this core too
    try:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "script.py"
            script.write_text(text)
            for _ in range(pairs):
                boxed.append(run(text, SMALL, minimum="limits").seconds)
                with cores.owned(1):
                    plain.append(bare(script, core))
    finally:
        os.sched_setaffinity(0, before)
    return min(boxed), min(plain)


def throughput(clock: str, scripts: int, text: str = SHORT) -> float:
    """Scripts per second of a pool that has all cores, after the first."""
    with Pool(clock=clock, repeats=0) as pool:
        pool.run([Job(text, SMALL, minimum="limits")])
        start = time.monotonic()
        results = pool.run([Job(text, SMALL, minimum="limits")] * scripts)
        spent = time.monotonic() - start
    assert {result.status for result in results} == {"ok"}
    return scripts / spent


def available() -> list[str]:
    """Levels that work here, as this user."""
    strongest = [level.name for level in LEVELS].index(isolation().level.name)
    names = [level.name for level in LEVELS[strongest:]]
    return [name for name in names if not name.startswith("uid") or os.geteuid() == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="of a script that does nothing, per level")
    parser.add_argument("--pairs", type=int, default=5, help="of runs in the box and bare")
    parser.add_argument("--scripts", type=int, default=100, help="through the pool")
    args = parser.parse_args()
    print("| level | overhead, median | p90 | script that does nothing | overhead / script |\n|---|---|---|---|---|")
    for name in available():
        middle, high, inside = overheads(name, args.runs)
        print(
            f"| {name} | {1e3 * middle:.1f} ms | {1e3 * high:.1f} ms | {1e3 * inside:.1f} ms | {middle / inside:.2f} |"
        )
    boxed, plain = bias(args.pairs)
    print(f"\n| clock inside the window | seconds |\n|---|---|\n| box ({choose(None, 'limits').name}) | {boxed:.3f} |")
    print(f"| bare | {plain:.3f} |\n| ratio | {boxed / plain:.3f} |")
    cold, warm = throughput("wall", max(4, args.scripts // 10)), throughput("warm", args.scripts)
    print("\n| pool | scripts per second |\n|---|---|")
    print(f"| fresh interpreters | {cold:.2f} |\n| warm | {warm:.2f} |\n| ratio | {warm / cold:.1f} |")


if __name__ == "__main__":
    main()
