"""Confidence bands of a mean over trials: pointwise percentile bootstrap, as in the paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError

Array = NDArray[np.float64]
WEIGHTS = 20_000_000  # elements of a block of resamples


class Band(NamedTuple):
    """Mean over trials and its interval, one number per mark."""

    mean: Array
    low: Array
    high: Array


def band(values: Array, *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> Band:
    """Mean over rows (trials) of `values` (trials x marks) with a percentile bootstrap interval at each mark.

    Whole trials are resampled, with the same `seed` for every table, so bands of two agents on the same trials use
    the same resamples. One trial has an interval of no width.
    """
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or not table.size:
        raise InputError("values", f"shape {table.shape}", "they must be trials x marks, at least one of each")
    at_least("resamples", resamples, 1)
    finite("level", level, lambda number: 0 < number < 1, "lie strictly between 0 and 1")
    trials = len(table)
    rng, chances = np.random.default_rng(seed), np.full(trials, 1 / trials)
    block = max(1, WEIGHTS // trials)  # resamples at a time, to bound memory; the numbers do not change
    sizes = [min(block, resamples - done) for done in range(0, resamples, block)]
    means = np.concatenate([rng.multinomial(trials, chances, size=size) / trials @ table for size in sizes])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Band(table.mean(axis=0), low, high)
