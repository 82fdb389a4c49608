"""Robbins-Monro: walk towards the root of E[reward - rate * seconds] = 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.errors import InputError
from rewardrate.rates.estimate import Estimator, RateEstimate
from rewardrate.rates.rows import Invalid


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the walk stands."""

    updates: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    "Running mean of seconds: it makes the step dimensionless, so the walk does not depend on units."
    noise: float = 0.0
    "Running mean of (reward - rate * seconds)^2."
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
        super().__init__(invalid=invalid)
        if not 0.5 < power <= 1:
            raise InputError("power", power, "it must lie in (0.5, 1]", "outside it the steps do not sum as they must")
        if not 0 <= floor <= 1:
            raise InputError("floor", floor, "it must lie in [0, 1]")
        self.power = float(power)
        self.floor = float(floor)
        self._walk = Walk()

    def _absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[Walk, RateEstimate]:
        old = self._walk
        step = max(self.floor, (old.updates + 1) ** -self.power)
        with np.errstate(over="ignore", invalid="ignore"):
            mean_seconds = old.seconds + step * (float(seconds.mean()) - old.seconds)
            gain = step / mean_seconds
            rate = old.rate + gain * float((reward - old.rate * seconds).mean())
            left = reward - rate * seconds
            noise = old.noise + step * (float(left @ left) / reward.size - old.noise)
            shrink = 1 - gain * float(seconds.mean())
            variance = shrink * shrink * old.variance + gain * gain * noise / reward.size
        new = Walk(old.updates + 1, rate, mean_seconds, noise, variance)
        error = math.sqrt(variance) if variance >= 0 else math.nan
        return new, RateEstimate.around(rate, error, self._estimate.count + reward.size)

    def _install(self, state: Walk) -> None:
        self._walk = state

    def _state(self) -> dict[str, Any]:
        return asdict(self._walk)

    def _restore(self, state: Mapping[str, Any]) -> None:
        numbers = {name: float(value) for name, value in state.items() if name != "updates"}
        self._walk = Walk(int(state["updates"]), **numbers)
