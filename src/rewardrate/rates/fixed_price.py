"""A price that is stated and never moves."""

from __future__ import annotations

from numpy.typing import ArrayLike

from rewardrate.checks import finite
from rewardrate.rates.price import PriceRule


class FixedPrice(PriceRule):
    """So much reward per second, whatever the attempts earn."""

    name = "fixed"

    def __init__(self, reward_per_second: float) -> None:
        positive = "be a finite number, not negative"
        self.reward_per_second = finite("reward_per_second", reward_per_second, lambda number: number >= 0, positive)

    def update(
        self, reward: ArrayLike, seconds: ArrayLike, *, rate: float, chains: int, deadline: float | None
    ) -> float:
        """The stated number."""
        return self.reward_per_second
