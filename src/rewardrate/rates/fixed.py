"""A price that never moves: 0 is ordinary reinforcement learning, rho* is the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import finite, state_numbers
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.rows import Invalid


class Fixed(Estimator):
    """Charges `rate`, whatever it is shown; rows are checked and counted."""

    adapts: ClassVar[bool] = False

    def __init__(self, rate: float = 0.0, *, invalid: Invalid = "zero") -> None:
        super().__init__(invalid=invalid)
        self.rate = finite("rate", rate, lambda number: number >= 0, "be a finite number, not negative")
        self._estimate = RateEstimate.around(self.rate, 0.0, 0)

    def absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[None, RateEstimate]:
        """The price again, and how many rows there were."""
        return None, RateEstimate.around(self.rate, 0.0, self._estimate.count + reward.size)

    def dump_state(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def parse_state(self, saved: Mapping[str, Any]) -> None:
        """Nothing to read."""
        state_numbers(saved, ())
