"""A NIW update: batch rates by inverse transform against every pair drawn, side by side in one run.

    python benchmarks/bench_niw.py [--refits 2000]

Each row: the two are timed in turn (best of 15 rounds) on the same rows, then the 95th percentiles of many refits of
each are compared by a two-sample Kolmogorov-Smirnov test. A p-value below 0.001 would be a false alarm once in 1,000.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from rewardrate.rates import NIW
from rewardrate.rates.niw import student_t
from rewardrate.rates.predictive import draw_literal, draw_transformed

CASES = [  # slots, batches, spread of log seconds, correlation of reward and log seconds
    (128, 1000, 0.36, 0.5),
    (128, 1000, 0.36, -0.9),
    (128, 1000, 0.05, 0.0),
    (128, 1000, 0.50, 0.3),
    (64, 1000, 0.30, 0.5),
    (256, 1000, 0.36, 0.5),
    (128, 4000, 0.36, 0.5),
]


def best(call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def compare(slots: int, batches: int, spread: float, correlation: float, refits: int) -> str:
    rng = np.random.default_rng(0)
    score = rng.standard_normal(slots)
    reward = 8 + correlation * score + np.sqrt(1 - correlation**2) * rng.standard_normal(slots)
    seconds = np.exp(4 + spread * score)
    fast, literal = NIW(batches=batches), NIW(batches=batches, draws="literal")
    for estimator in (fast, literal):
        for _ in range(8):
            estimator.update(reward, seconds)
    rounds = [
        (best(lambda: literal.update(reward, seconds), 3), best(lambda: fast.update(reward, seconds), 60))
        for _ in range(15)
    ]
    slow_seconds, fast_seconds = (min(column) for column in zip(*rounds, strict=True))
    predictive = student_t(fast.posterior, slots)
    one, two = np.random.default_rng(1), np.random.default_rng(2)
    theirs = [np.percentile(draw_literal(one, predictive, batches), 95) for _ in range(refits)]
    ours = [np.percentile(draw_transformed(two, predictive, batches, 0.95), 95) for _ in range(refits)]
    p = stats.ks_2samp(theirs, ours).pvalue
    return (
        f"| {slots} | {batches} | {spread} | {correlation} | {1e3 * slow_seconds:.2f} ms | {1e6 * fast_seconds:.0f} us "
        f"| **{slow_seconds / fast_seconds:.0f}x** | {p:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refits", type=int, default=300, help="refits per side of the two-sample test (default 300)")
    refits = parser.parse_args().refits
    print("| slots n | batches M | spread | correlation | literal | ours | ratio | KS p-value |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        print(compare(*case, refits), flush=True)


if __name__ == "__main__":
    main()
