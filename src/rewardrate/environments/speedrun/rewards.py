"""What an attempt at the race earns, for both arms. Paper, equations (nanogpt:reward) and (nanogpt:vanilla).

L is the validation loss, L* the target, delta the seconds, delta_max the cap.

    rpg      earned  max(0, L_ref - L)                      the rate is fitted on this alone
             bonus   B + w min(L* - L, window)              if L <= L*; in the reward, never in the rate
             invalid -10                                    (the objective's penalty)

    vanilla  L <= L*           -delta     + w_t min(L* - L, window)
             valid, L > L*     -delta_max - w_t min(L - L*, window)
             invalid           -2 delta_max

The three cases of vanilla do not overlap as long as w_t * window < delta_max, which is checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from rewardrate.attempt import Outcome
from rewardrate.config import AtLeast
from rewardrate.environments.environment import RewardRules
from rewardrate.errors import InputError


@dataclass(frozen=True)
class RewardSettings:
    """The constants of both arms; the defaults are the paper's."""

    reference_loss: Annotated[float, AtLeast(0)] = 10.0
    "L_ref: a loss that earns nothing (rpg)."
    crossing_bonus: Annotated[float, AtLeast(0)] = 5.0
    "B, for reaching the target (rpg)."
    slope: Annotated[float, AtLeast(0)] = 100.0
    "w, a unit of loss below the target (rpg)."
    depth_seconds: Annotated[float, AtLeast(0)] = 20_000.0
    "w_t, what a unit of loss is worth in seconds (vanilla)."


class RaceRewards(RewardRules):
    """The rewards of one race: target, window (how far beside it loss is told) and cap, with the settings.

    Raises InputError if the cases of vanilla would overlap.
    """

    def __init__(
        self,
        target: float = 3.28,
        window: float = 0.03,
        limit_seconds: float = 1500.0,
        settings: RewardSettings = RewardSettings(),  # noqa: B008
    ) -> None:
        self.target, self.window, self.limit_seconds, self.settings = target, window, limit_seconds, settings
        if settings.depth_seconds * window >= limit_seconds:
            rule = f"times the credited margin ({window:g}) it must stay below the cap of {limit_seconds:g} s"
            remedy = f"below {limit_seconds / window:.0f}; else an invalid attempt could outrank a valid one"
            raise InputError("rewards.depth_seconds", settings.depth_seconds, rule, remedy)

    def crosses(self, loss: float) -> bool:
        """Whether a loss reaches the target."""
        return loss <= self.target

    def earned(self, loss: float) -> float:
        """max(0, L_ref - L): what a valid attempt earns without bonuses, and all that the rate knows of it."""
        return max(0.0, self.settings.reference_loss - _checked(loss))

    def bonus(self, loss: float) -> float:
        """B + w min(L* - L, window) for a loss at or below the target, else 0. Never part of the rate."""
        if not self.crosses(_checked(loss)):
            return 0.0
        return self.settings.crossing_bonus + self.settings.slope * min(self.target - loss, self.window)

    def depth(self, loss: float) -> float:
        """w_t min(|L* - L|, window), signed: what vanilla credits below the target, and takes off above it."""
        below = self.target - _checked(loss)
        return self.settings.depth_seconds * math.copysign(min(abs(below), self.window), below)

    def vanilla(self, loss: float | None, seconds: float, *, valid: bool) -> float:
        """The reward of the arm vanilla, in seconds. No attempt is counted as longer than the cap."""
        if not valid or loss is None:
            return -2.0 * self.limit_seconds
        return -self.spent(loss, seconds) + self.depth(loss)

    def spent(self, loss: float, seconds: float) -> float:
        """Seconds that vanilla counts for a valid attempt: its own if it reached the target, else the cap."""
        return min(seconds, self.limit_seconds) if self.crosses(_checked(loss)) else self.limit_seconds

    def ranking_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """What the buffer ranks by before the price: reward with its threshold bonuses, or vanilla's whole reward."""
        if not outcome.valid or outcome.score is None:
            return outcome.reward
        if priced:
            return outcome.reward + self.bonus(outcome.score)
        return self.vanilla(outcome.score, outcome.seconds, valid=True)

    def extra_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """Threshold bonuses (rpg) or depth (vanilla) of a valid attempt."""
        if not outcome.valid or not outcome.charged or outcome.score is None:
            return 0.0
        return self.bonus(outcome.score) if priced else self.depth(outcome.score)

    def vanilla_reward(self, outcome: Outcome) -> float:
        """What vanilla takes off for time alone; depth is the extra reward."""
        if not outcome.valid or outcome.score is None:
            return self.vanilla(None, outcome.seconds, valid=False)
        return -self.spent(outcome.score, outcome.seconds)


def _checked(loss: float) -> float:
    if not math.isfinite(loss):
        raise InputError("loss", loss, "a validation loss must be a finite number")
    return loss
