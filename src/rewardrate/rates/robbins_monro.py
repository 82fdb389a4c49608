"""Robbins-Monro: walk towards the root of E[reward - rate * seconds] = 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import at_least, finite, state_numbers
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.rows import Invalid


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the walk stands."""

    updates: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    "Running mean of seconds: it makes the step dimensionless, so the walk does not depend on units."
    noise: float = 0.0
    "Running mean of (reward - rate * seconds)^2, at the rate before each update."
    variance: float = 0.0
    "Variance of `rate`, by the same recursion that moves it."


class RobbinsMonro(Estimator):
    """One step per update, on the mean of its rows (feed it greedy samples to price the greedy policy).

        step     = max(floor, updates ^ -power)
        seconds += step * (mean(s) - seconds)
        rate    += step * mean(r - rate * s) / seconds

    With floor = 0 and power in (1/2, 1] the walk converges (Robbins and Monro, 1951); a floor keeps it following a
    rate that never stops moving. `seconds` holds at least `step` of the newest batch, so a step never overshoots.
    """

    def __init__(self, *, power: float = 0.6, floor: float = 0.0, invalid: Invalid = "zero") -> None:
        super().__init__(state=Walk(), invalid=invalid)
        self.power = finite(
            "power", power, lambda number: 0.5 < number <= 1, "lie in (0.5, 1], or the steps do not sum as needed"
        )
        self.floor = finite("floor", floor, lambda number: 0 <= number <= 1, "lie in [0, 1]")

    def absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[Walk, RateEstimate]:
        """One step of the walk."""
        old: Walk = self.state
        step = max(self.floor, (old.updates + 1) ** -self.power)
        mean_seconds = old.seconds + step * (float(seconds.mean()) - old.seconds)
        gain = step / mean_seconds
        rate = old.rate + gain * float((reward - old.rate * seconds).mean())
        noise = old.noise + step * (self._noise(reward, seconds, rate) - old.noise)
        shrink = 1 - gain * float(seconds.mean())
        variance = shrink * shrink * old.variance + gain * gain * noise / reward.size
        new = Walk(old.updates + 1, rate, mean_seconds, noise, variance)
        error = math.sqrt(variance) if variance >= 0 else math.nan
        return new, RateEstimate.around(rate, error, self._estimate.count + reward.size)

    def _noise(self, reward: NDArray[np.float64], seconds: NDArray[np.float64], rate: float) -> float:
        """Mean square of what the old rate did not foresee; at the first update, of what the new one leaves over."""
        if self.state.updates:
            left = reward - self.state.rate * seconds
            return float(left @ left) / reward.size
        left = reward - rate * seconds
        return float(left @ left) / max(reward.size - 1, 1)

    def dump_state(self) -> dict[str, Any]:
        """Where the walk stands, by name."""
        return asdict(self.state)

    def parse_state(self, saved: Mapping[str, Any]) -> Walk:
        """A walk of finite numbers after a whole number of updates."""
        found = state_numbers(saved, tuple(asdict(Walk())), ("seconds", "noise", "variance"))
        found.pop("updates")
        return Walk(at_least("updates", saved["updates"], 0), **found)
