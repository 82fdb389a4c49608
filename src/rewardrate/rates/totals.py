"""Ratio of totals: all reward earned over all seconds spent, the on-policy Monte-Carlo estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import finite, state_numbers
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.rows import Invalid


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over rows (r: reward, s: seconds) with weights w = forgetting^(updates ago)."""

    w: float = 0.0
    r: float = 0.0
    s: float = 0.0
    ww: float = 0.0
    "From here on with the weights squared: they make the variance."
    rr: float = 0.0
    rs: float = 0.0
    ss: float = 0.0


class Totals(Estimator):
    """rate = sum(reward) / sum(seconds), each update weighing the past by `forgetting` (1: never forget).

    The interval is the delta method's for a ratio: variance = sum w^2 (reward - rate * seconds)^2 / (sum w seconds)^2,
    times n / (n - 1) for the n rows that the weights are worth. It has no width on a single row.
    """

    def __init__(self, *, forgetting: float = 1.0, invalid: Invalid = "zero") -> None:
        super().__init__(state=Sums(), invalid=invalid)
        self.forgetting = finite("forgetting", forgetting, lambda number: 0 < number <= 1, "lie in (0, 1]")

    def absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[Sums, RateEstimate]:
        """The sums with these rows, and their ratio."""
        old, keep = self.state, self.forgetting
        again = keep * keep
        new = Sums(
            w=keep * old.w + reward.size,
            r=keep * old.r + float(reward.sum()),
            s=keep * old.s + float(seconds.sum()),
            ww=again * old.ww + reward.size,
            rr=again * old.rr + float(reward @ reward),
            rs=again * old.rs + float(reward @ seconds),
            ss=again * old.ss + float(seconds @ seconds),
        )
        mean = new.r / new.s
        residual = new.rr - 2 * mean * new.rs + mean * mean * new.ss
        rows = new.w * new.w / new.ww
        correction = rows / (rows - 1) if rows > 1 else 0.0
        # Rounding may take the residual below zero; NaN must not pass for zero, as it does in max(0, nan).
        error = math.sqrt(max(0.0, residual) * correction) / new.s if math.isfinite(residual) else math.nan
        return new, RateEstimate.around(mean, error, self._estimate.count + reward.size)

    def dump_state(self) -> dict[str, Any]:
        """The sums by name."""
        return asdict(self.state)

    def parse_state(self, saved: Mapping[str, Any]) -> Sums:
        """Finite sums, those of squares not negative."""
        return Sums(**state_numbers(saved, tuple(asdict(Sums())), ("w", "s", "ww", "rr", "ss")))
