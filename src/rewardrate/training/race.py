"""The objective of the race: what an attempt is worth to the learner and in the buffer, for both arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewardrate.attempt import Outcome
from rewardrate.environments.speedrun.rewards import RaceRewards
from rewardrate.rates import RateEstimate
from rewardrate.training.objective import Objective


@dataclass(frozen=True)
class RaceObjective(Objective):
    """The reward of one attempt at the race. Paper, equations (nanogpt:reward) and (nanogpt:vanilla).

        rpg      (L_ref - L) - price * seconds  +  threshold bonuses;  invalid: penalty - price * cap
        vanilla  -seconds  +  depth;  valid above the target: -cap - depth;  invalid: -2 cap

    What stands left of the sign is the relative reward on record, what stands right of it the bonus. The rate is
    fitted on `Outcome.reward` = L_ref - L, so no bonus enters it. The self-improvement bonus of the machine-learning
    tasks comes on top if it is set; the paper's race has none.
    """

    race: RaceRewards | None = None

    @property
    def rewards_of(self) -> RaceRewards:
        """The race's rewards; they are always set."""
        assert self.race is not None
        return self.race

    def worth(self, outcome: Outcome) -> float:
        """What the buffer ranks by before the price: reward with its threshold bonuses, or vanilla's whole reward."""
        if not outcome.valid or outcome.score is None:
            return outcome.reward
        if self.arm == "vanilla":
            return self.rewards_of.vanilla(outcome.score, outcome.seconds, valid=True)
        return outcome.reward + self.rewards_of.bonus(outcome.score)

    def relative(
        self, outcomes: Sequence[Outcome], rate: float | RateEstimate, *, limit_seconds: float | Sequence[float]
    ) -> list[float | None]:
        """Rewards after paying for the time, without depth and bonuses; None for a fault of ours."""
        if self.arm == "rpg":
            return super().relative(outcomes, rate, limit_seconds=limit_seconds)
        return [self._seconds(outcome) if outcome.charged else None for outcome in outcomes]

    def bonuses(self, outcomes: Sequence[Outcome], best_before: float | None) -> list[float]:
        """Threshold bonuses (rpg) or depth (vanilla) of the valid attempts, and the self-improvement bonus if set."""
        extra = super().bonuses(outcomes, best_before)
        return [self._depth(outcome) + more for outcome, more in zip(outcomes, extra, strict=True)]

    def _seconds(self, outcome: Outcome) -> float:
        """What vanilla takes off for time alone."""
        race = self.rewards_of
        if not outcome.valid or outcome.score is None:
            return race.vanilla(None, outcome.seconds, valid=False)
        return -race.spent(outcome.score, outcome.seconds)

    def _depth(self, outcome: Outcome) -> float:
        if not outcome.valid or not outcome.charged or outcome.score is None:
            return 0.0
        race = self.rewards_of
        return race.depth(outcome.score) if self.arm == "vanilla" else race.bonus(outcome.score)
