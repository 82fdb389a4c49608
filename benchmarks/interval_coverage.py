"""How often the 95 % intervals of the pages hold the true difference, where it is known: simulated studies.

    python benchmarks/interval_coverage.py

A comparison of arms: blocks of 2 seeds, normal differences (standard deviation 0.08 between tasks, 0.09 between
seeds; of a single task 0.09). A page of one task: runs of 16 chains, standard deviation 0.1 between runs and 0.1
between chains in both arms.
"""

from __future__ import annotations

import numpy as np

from rewardrate.reports.comparison import bootstrap
from rewardrate.reports.evaluation import Chains, compare

STUDIES, DRAWS = 1000, 1000
TASKS, SEEDS = (1, 2, 3, 4, 5, 6, 8, 12), (1, 2, 3, 5, 10)


def over_tasks(tasks: int, rng: np.random.Generator) -> bool:
    """Whether the interval of one simulated comparison holds 0, the truth."""
    means = rng.normal(0, 0.08, tasks) if tasks > 1 else np.zeros(1)
    groups = {str(place): list(rng.normal(mean, 0.09, 2)) for place, mean in enumerate(means)}
    _, drawn = bootstrap(groups, draws=DRAWS)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return bool(low <= 0 <= high)


def of_one_task(seeds: int, rng: np.random.Generator) -> bool:
    """The same for the page of one task."""

    def run() -> Chains:
        return Chains(rng.normal(0.5 + rng.normal(0, 0.1), 0.1, (1, 16)), np.ones((1, 16)))

    found = compare([run() for _ in range(seeds)], [run() for _ in range(seeds)], final=2.0, draws=DRAWS)
    low, high = found.difference.low, found.difference.high
    return low is not None and high is not None and low <= 0 <= high


def main() -> None:
    """Print both tables."""
    for words, sizes, one in (("tasks of 2 seeds", TASKS, over_tasks), ("seeds of one task", SEEDS, of_one_task)):
        for size in sizes:
            rng = np.random.default_rng(size)
            held = sum(one(size, rng) for _ in range(STUDIES)) / STUDIES
            error = (held * (1 - held) / STUDIES) ** 0.5
            print(f"{size:3d} {words}: {held:.3f} ({1.96 * error:.3f})", flush=True)


if __name__ == "__main__":
    main()
