"""How far the charged percentile lies above the true rate when batches are small, and which percentile corrects it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rewardrate.checks import at_least, finite
from rewardrate.rates.accumulators import Accumulators
from rewardrate.rates.niw import NIW
from rewardrate.rates.renewal import Renewal

VALID = 0.35  # share of valid attempts: that of a start from which a policy still has to learn


def same_over_pricing(quantile: float, batch: int, meant_for: int) -> float:
    """The percentile that over-prices a batch as much as `quantile` does one of `meant_for` rows.

        charged / true rate - 1  is about  z(quantile) * c / sqrt(batch),    c: variation of a row, the same for both

    so z is scaled by sqrt(batch / meant_for). Larger batches keep `quantile`.
    """
    finite("quantile", quantile, lambda number: 0 < number < 1, "lie strictly between 0 and 1")
    share = at_least("batch", batch, 1) / at_least("meant_for", meant_for, 1)
    normal = NormalDist()
    return quantile if share >= 1 else normal.cdf(normal.inv_cdf(quantile) * share**0.5)


@dataclass(frozen=True)
class OverPricing:
    """Charged over true rate of one batch and percentile: the mean over runs after each of the asked steps."""

    batch: int
    quantile: float
    ratio: tuple[float, ...]
    below: tuple[float, ...]
    "Share of runs that are charged less than the true rate."


def over_pricing(batch: int, quantile: float, steps: tuple[int, ...], *, runs: int = 200, seed: int = 0) -> OverPricing:
    """NIW on running totals of a stationary policy: 35 % valid, failures take as long and earn nothing."""
    found = np.array(
        [list(itertools.islice(_ratios(batch, quantile, [seed, run]), max(steps))) for run in range(runs)]
    )[:, [step - 1 for step in steps]]
    return OverPricing(batch, quantile, tuple(found.mean(axis=0).tolist()), tuple((found < 1).mean(axis=0).tolist()))


def _ratios(batch: int, quantile: float, seed: list[int]) -> Iterator[float]:
    process, rng = Renewal(), np.random.default_rng(seed)
    chains, estimator = Accumulators(batch), NIW(quantile=quantile, batches=400, seed=seed[-1])
    while True:
        reward, seconds = process.draw(rng, batch)
        valid = rng.random(batch) < VALID
        yield chains.update(reward, seconds, valid).fit(estimator).rate / (VALID * process.rate)
