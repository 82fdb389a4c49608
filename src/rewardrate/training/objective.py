"""The reward that the learner gets for an attempt: the two arms of the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from rewardrate.attempt import Outcome
from rewardrate.checks import finite
from rewardrate.config import AtLeast
from rewardrate.errors import InputError, nearest
from rewardrate.rates import RateEstimate, relative_reward

Arm = Literal["rpg", "vanilla"]
Charge = Literal["limit", "measured"]
PriceIn = Literal["both", "reward", "buffer"]


@dataclass(frozen=True)
class Overhead:
    """Seconds that an attempt is charged beside those of its script. Paper: none.

        delta = script + seconds + (its share of the generation)

    They are part of the attempt's seconds everywhere: in the rate, the price, the buffer's ranking and the budgets. A
    script of a tenth of a second is not ten times cheaper than one of a second when both cost a second to start.
    """

    seconds: Annotated[float, AtLeast(0)] = 0.0
    "The same for every attempt, failures included: start-up, set-up, grading."
    generation: bool = False
    "Whether the time that the policy took to write the attempt counts."

    def __post_init__(self) -> None:
        finite("overhead.seconds", self.seconds, lambda number: number >= 0, "be finite and not negative")

    def clock(self, scripts: str) -> str:
        """What a run's record calls its seconds: runs on unlike clocks are not compared."""
        fixed = [f"{self.seconds:g} s"] if self.seconds else []
        return " + ".join([scripts, *fixed, *(["generation"] if self.generation else [])])

    def extra(self, generation_seconds: float) -> float:
        """Seconds that come on top of a script's own, and of the limit that a failure is charged."""
        return self.seconds + (generation_seconds if self.generation else 0.0)

    def added(self, outcome: Outcome, generation_seconds: float) -> Outcome:
        """The outcome with its overhead; a failure of the sandbox is charged nothing."""
        extra = self.extra(generation_seconds)
        return replace(outcome, seconds=outcome.seconds + extra) if extra and outcome.charged else outcome


@dataclass(frozen=True)
class Objective:
    """The reward of one attempt. Paper, equation (mle:arms).

        valid:    reward  - price * seconds  (+ bonus if it beats every retained solution)
        invalid:  penalty - price * limit_seconds

    with price = price_scale * rate for the arm `rpg` and 0 for `vanilla`. Which quantile of the rate is charged is the
    estimator's setting. A failure of the sandbox is not charged: it has no reward (None).
    """

    arm: Arm = "rpg"
    "rpg: seconds are paid for. vanilla: they are free, whatever the other settings."
    penalty: float = -10.0
    "Reward of an attempt that is not valid."
    bonus: Annotated[float, AtLeast(0)] = 0.5
    "Added when a valid reward is above that of every solution retained before this step."
    price_scale: Annotated[float, AtLeast(0)] = 1.0
    "Share of the rate that is charged: 0 is free time, 1 the paper; between them lies the frontier of score and time."
    price_in: PriceIn = "both"
    "Where seconds are paid for: in the learner's reward, in the ranking of the solution buffer, or in both."
    invalid_charge: Charge = "limit"
    "Seconds a failure pays for: the limit (else failing at once would be cheap), or those it was measured to take."

    def __post_init__(self) -> None:
        for name, options in (
            ("arm", get_args(Arm)),
            ("price_in", get_args(PriceIn)),
            ("invalid_charge", get_args(Charge)),
        ):
            value = getattr(self, name)
            if value not in options:
                rule = f"it must be one of {', '.join(options)}"
                raise InputError(f"objective.{name}", value, rule, nearest(str(value), options))
        finite("objective.penalty", self.penalty)
        for name in ("bonus", "price_scale"):
            finite(f"objective.{name}", getattr(self, name), lambda number: number >= 0, "be finite and not negative")

    def price(self, rate: float | RateEstimate) -> float:
        """What this arm charges for a second, in reward."""
        charged = rate.rate if isinstance(rate, RateEstimate) else rate
        charged = finite("rate", charged, lambda number: number >= 0, "be a finite number, not negative")
        return 0.0 if self.arm == "vanilla" else self.price_scale * charged

    def buffer_price(self, rate: float | RateEstimate) -> float:
        """What the solution buffer is ranked by."""
        return 0.0 if self.price_in == "reward" else self.price(rate)

    def relative(
        self, outcomes: Sequence[Outcome], rate: float | RateEstimate, *, limit_seconds: float | Sequence[float]
    ) -> list[float | None]:
        """Rewards after paying for the time, without the bonus; None for a failure of the sandbox.

        `limit_seconds`: what a failure pays for, the same for all or one for each.
        """
        price = 0.0 if self.price_in == "buffer" else self.price(rate)
        limits = limit_seconds if isinstance(limit_seconds, Sequence) else [limit_seconds] * len(outcomes)
        rows = zip(outcomes, limits, strict=True)
        return [self._charged(outcome, price, limit) if outcome.charged else None for outcome, limit in rows]

    def bonuses(self, outcomes: Sequence[Outcome], best_before: float | None) -> list[float]:
        """The self-improvement bonus of each attempt.

        `best_before` is the best reward among the solutions retained before this step's were added; with an empty
        buffer it is None, nothing has to be exceeded, and every valid attempt gets the bonus (paper and authors).
        """
        return [
            self.bonus if outcome.valid and (best_before is None or outcome.reward > best_before) else 0.0
            for outcome in outcomes
        ]

    def _charged(self, outcome: Outcome, price: float, limit_seconds: float) -> float:
        limit = max(limit_seconds, outcome.seconds)  # overhead may come on top of a timeout
        charged = limit if self.invalid_charge == "limit" else outcome.seconds
        return float(
            relative_reward(
                outcome.reward,
                outcome.seconds,
                price,
                valid=outcome.valid,
                limit_seconds=charged,
                penalty=self.penalty,
            )
        )
