"""What a step's seconds are charged: the contract of every price, and the paper's, which is the reward rate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import ArrayLike


class PriceRule(ABC):
    """What a second costs. One `update` a step, with all its attempts.

    A price without a state of its own has the empty one; `name` is where a run's checkpoint keeps it.
    """

    name: ClassVar[str]

    @abstractmethod
    def update(
        self, reward: ArrayLike, seconds: ArrayLike, *, rate: float, chains: int, deadline: float | None
    ) -> float:
        """The price after a step: its attempts, a failed one with reward 0, of so many chains.

        `rate`: the estimated reward rate, this step's attempts included. `deadline`: seconds per chain from the first
        step to the deadline, None without one. Never negative; a bad row raises InputError and nothing is changed.
        """

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Resume from a saved state; one that does not fit is refused and nothing is changed."""


class RatePrice(PriceRule):
    """The reward rate: what a second earns on average. Paper, equation (mle:arms)."""

    name = "rate"

    def update(
        self, reward: ArrayLike, seconds: ArrayLike, *, rate: float, chains: int, deadline: float | None
    ) -> float:
        """The rate that the estimator charges."""
        return rate
