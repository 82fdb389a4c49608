"""Dinkelbach's iteration, exact or within a tolerance band: the skeleton of reward-rate learning."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from rewardrate.errors import InputError
from rewardrate.theory.bandit import Ties, greedy_policy, policy_rate
from rewardrate.theory.tables import check_p, check_rate, check_tables

Choose = Callable[[int, float, float, float], float]


def dinkelbach(
    reward: ArrayLike,
    seconds: ArrayLike,
    p: ArrayLike | None = None,
    *,
    start: float = 0.0,
    gamma: float = 0.0,
    choose: Choose | np.random.Generator | None = None,
    ties: Ties = "first",
    steps: int | None = None,
) -> Iterator[float]:
    """Yield rho_1 = start, rho_2, ...: each the rate of a policy that is greedy at the one before.

        rho(u_k) / (1 + gamma)  <=  rho_{k+1}  <=  (1 + gamma) rho(u_k),   clipped to [0, r_max / delta_min]

    With gamma = 0 it ends by itself once the rate stops rising, at the optimal rate. With a band, `choose` picks from
    it: a function (k, greedy rate, low, high) -> rate, or a Generator for a uniform draw; default the greedy rate
    itself. `steps` bounds the number of iterates (needed with a band, unless you stop taking them). Rewards must not be
    negative (assumption A1: a band around a negative rate is empty). Paper, theorem 1.
    """
    reward_xa, seconds_xa = check_tables(reward, seconds)
    p_x = check_p(p, len(reward_xa))
    if (reward_xa < 0).any():
        raise InputError("reward", float(reward_xa.min()), "rewards must not be negative here (assumption A1)")
    if not 0 <= gamma <= 1:
        raise InputError("gamma", gamma, "it must lie in [0, 1]")
    ceiling = float(reward_xa.max() / seconds_xa.min())
    if not 0 <= check_rate(start, "start") <= ceiling:
        raise InputError("start", start, f"it must lie in [0, r_max / delta_min] = [0, {ceiling:.6g}]")
    if steps is not None and steps < 1:
        raise InputError("steps", steps, "it must be at least 1")

    def iterates() -> Iterator[float]:
        rate = float(start)
        yield rate
        for k in itertools.count(1):
            greedy = policy_rate(reward_xa, seconds_xa, p_x, greedy_policy(reward_xa, seconds_xa, rate, ties=ties))
            low, high = greedy / (1 + gamma), (1 + gamma) * greedy
            new = min(max(_pick(choose, k, greedy, low, high), 0.0), ceiling)
            if gamma == 0 and k > 1 and new <= rate:  # rates of finitely many policies, rising: this was the last
                return
            rate = new
            yield rate

    return itertools.islice(iterates(), steps)


def _pick(choose: Choose | np.random.Generator | None, k: int, greedy: float, low: float, high: float) -> float:
    if choose is None:
        return greedy
    if isinstance(choose, np.random.Generator):
        return float(choose.uniform(low, high))
    picked = float(choose(k, greedy, low, high))
    if not low * (1 - 1e-12) <= picked <= high * (1 + 1e-12):
        raise InputError("choose", picked, f"rate {k + 1} must lie in the band [{low:.6g}, {high:.6g}]")
    return picked
