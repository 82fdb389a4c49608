"""How soon an estimator notices that the policy has become faster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from rewardrate.rates.accumulators import Accumulators
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.fixed import Fixed
from rewardrate.rates.neural import Neural
from rewardrate.rates.niw import NIW
from rewardrate.rates.renewal import Renewal
from rewardrate.rates.robbins_monro import RobbinsMonro
from rewardrate.rates.totals import Totals

CHAINS = 128
BEFORE = 10  # updates before the change
SPEED_UP = 4.0
WITHIN = 0.10
STAYS = 5  # updates it must stay within

# Name in the table -> estimator and window of its accumulators (None: totals from the first step).
CONTENDERS: dict[str, tuple[Callable[[], Estimator], int | None]] = {
    "NIW, running totals (paper)": (NIW, None),
    "NIW, window of 10 steps": (NIW, 10),
    "NIW, window of 5 steps": (NIW, 5),
    "NIW, window of 1 step": (NIW, 1),
    "Robbins-Monro": (RobbinsMonro, None),
    "Robbins-Monro, steps of at least 0.3": (lambda: RobbinsMonro(floor=0.3), None),
    "Totals": (Totals, None),
    "Totals, forgetting 0.7": (lambda: Totals(forgetting=0.7), None),
    "Neural, memory of 1024": (Neural, None),
    "Neural, memory of 256": (lambda: Neural(memory=256), None),
    "Fixed at the old rate": (lambda: Fixed(Renewal().rate), None),
}


def rate_path(estimator: Estimator, updates: int, *, window: int | None = None, seed: int = 4) -> list[float]:
    """Charged rate over true rate, update by update; the process becomes four times faster after ten updates."""
    return list(itertools.islice(_ratios(estimator, window, seed), updates))


def recovery(estimator: Estimator, *, window: int | None = None, seed: int = 4, limit: int = 1000) -> int | None:
    """Updates after the change until the rate is within 10 % of the new one and stays there for five; None: never."""
    inside = 0
    for update, ratio in enumerate(itertools.islice(_ratios(estimator, window, seed), BEFORE, BEFORE + limit), start=1):
        inside = inside + 1 if abs(ratio - 1) <= WITHIN else 0
        if inside == STAYS:
            return update - (STAYS - 1)
    return None


def _ratios(estimator: Estimator, window: int | None, seed: int) -> Iterator[float]:
    slow, rng = Renewal(), np.random.default_rng(seed)
    fast = slow.faster(SPEED_UP)
    chains = Accumulators(CHAINS, window=window)
    for update in itertools.count():
        process = slow if update < BEFORE else fast
        yield chains.update(*process.draw(rng, CHAINS)).fit(estimator).rate / process.rate
