"""What a second is worth to someone with a deadline: the improvement that the remaining attempts could still bring.

The reward rate charges for the reward that a second earns on average. At a deadline T score counts once, and what a
second buys before it is learning. Let J be the mean reward of an attempt, growing by `slope` per second towards the
best reward known, `headroom` above J, as an exponential: with `left` seconds to go and d seconds an attempt,

    J(T) = J + headroom * (1 - exp(-u)),    u = slope * left / headroom

A policy whose attempts take longer takes longer in each of the left / d remaining ones, and u falls as 1 / d. So

    price = -dJ(T) / dd = slope * (left / d) * exp(-u)

is the reward at T that one more second per attempt costs, against one more unit of reward per attempt (docs/theory.md).
It is 0 at the deadline, 0 when nothing is left to improve, and small when learning will be over long before T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError
from rewardrate.rates.price import PriceRule
from rewardrate.rates.rows import check_rows


class Horizon(PriceRule):
    """The price of a second before a deadline, from the steps so far. One `update` a step, with all its attempts.

    `window`: steps over which slope is fitted (each fit is averaged with the one before); headroom is the best reward
    so far less the mean of the last three steps. Below three steps the slope is not known, and the largest price that
    any slope could give is charged: headroom / (e * d), where u = 1 (less where less than one attempt is left).
    """

    name = "horizon"

    def __init__(self, window: int = 6) -> None:
        self.window = at_least("window", window, 3)
        self.used = 0.0
        "Seconds per chain so far."
        self.price = 0.0
        self._steps: list[tuple[float, float]] = []  # (seconds per chain, mean reward) after each of the last steps
        self._slope: float | None = None
        self._best: float | None = None

    def update(
        self, reward: ArrayLike, seconds: ArrayLike, *, rate: float = 0.0, chains: int, deadline: float | None
    ) -> float:
        """The price after a step. It needs a deadline, and not the rate; without attempts it is what it was."""
        reward_N, seconds_N = check_rows(reward, seconds, None, "zero")
        chains = at_least("chains", chains, 1)
        deadline = finite("deadline", deadline, lambda number: number > 0, "be finite and positive")
        if not reward_N.size:
            return self.price
        self.used += float(seconds_N.sum()) / chains
        self._best = max(float(reward_N.max()), -math.inf if self._best is None else self._best)
        self._steps = [*self._steps, (self.used, float(reward_N.mean()))][-self.window :]
        recent = float(np.mean([mean for _, mean in self._steps[-3:]]))
        with np.errstate(over="ignore", invalid="ignore"):
            price = self._price(deadline - self.used, self._best - recent, float(seconds_N.mean()))
        self.price = price if math.isfinite(price) else 0.0  # numbers beyond 64-bit arithmetic
        return self.price

    def _price(self, left: float, headroom: float, mean_seconds: float) -> float:
        if headroom <= 0 or left <= 0:
            return 0.0
        if len(self._steps) < 3:
            return headroom / mean_seconds / math.e * min(1.0, left / mean_seconds)
        slope = _slope(self._steps)
        fitted = max(0.0, slope) if math.isfinite(slope) else 0.0
        self._slope = fitted if self._slope is None else 0.5 * (fitted + self._slope)
        growth = self._slope * left
        return growth / mean_seconds * math.exp(-growth / headroom)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        return {
            "window": self.window,
            "used": self.used,
            "steps": [list(step) for step in self._steps],
            "slope": self._slope,
            "best": self._best,
            "price": self.price,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one with another window or damaged is refused and nothing is changed."""
        try:
            steps = [(_finite(used), _finite(mean)) for used, mean in state["steps"]]
            best, slope = (None if state[name] is None else _finite(state[name]) for name in ("best", "slope"))
            used, price = (_finite(state[name]) for name in ("used", "price"))
            if state["window"] != self.window or len(steps) > self.window or min(used, slope or 0.0, price) < 0:
                raise ValueError(f"this price has a window of {self.window} steps")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("state", state, f"it cannot be restored ({error})") from None
        self._steps, self._best, self._slope = steps, best, slope
        self.used, self.price = used, price


def _slope(steps: Sequence[tuple[float, float]]) -> float:
    """Least squares: mean reward against seconds used."""
    used, mean = np.array(steps).T
    spread = used - used.mean()
    square = float(spread @ spread)
    return float(spread @ (mean - mean.mean())) / square if square > 0 else 0.0


def _finite(value: Any) -> float:
    return finite("state", value)
