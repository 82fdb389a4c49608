"""Algorithm 1 between execution and learning: fit the rate, charge the batch, give the bonus, feed the buffer.

The loop, the sampler of verl, the reward function of TRL and every other engine take this one step, and it holds all
the state that a run carries from step to step beside the policy's weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewardrate.attempt import Outcome, RateEstimate
from rewardrate.environments.environment import KnownSolution, RewardRules
from rewardrate.errors import InputError
from rewardrate.rates import Accumulators, PriceRule, RatePrice
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.known import known
from rewardrate.training.buffer import Solution, SolutionBuffer
from rewardrate.training.objective import Objective, Overhead


@dataclass(frozen=True)
class Priced:
    """What one batch came to."""

    rate: RateEstimate
    "rho, fitted on this batch with all before it."
    price: float
    "What was charged for a second: the objective's share of what the price says; 0 in the arm vanilla."
    relative: list[float | None]
    "Reward after paying for the time, without the bonus; None for a failure of the sandbox."
    bonuses: list[float]
    outcomes: Sequence[Outcome]
    "With their overhead."

    @property
    def rewards(self) -> list[float | None]:
        """What the learner gets for each attempt; None leaves it out of the gradient."""
        pairs = zip(self.relative, self.bonuses, strict=True)
        return [None if left is None else left + bonus for left, bonus in pairs]

    def metrics(self) -> dict[str, float]:
        """Numbers for a curve; a mean over nothing is left out."""
        charged = [outcome for outcome in self.outcomes if outcome.charged]
        valid = [outcome for outcome in charged if outcome.valid]
        found = {
            "rate": self.rate.rate,
            "price": self.price,
            "valid_share": len(valid) / len(self.outcomes),
            "left_out": float(len(self.outcomes) - len(charged)),
        }
        for name, rows in (
            ("priced_reward", [reward for reward in self.rewards if reward is not None]),
            ("seconds", [outcome.seconds for outcome in charged]),
            ("reward", [outcome.reward if outcome.valid else 0.0 for outcome in charged]),
        ):
            if rows:
                found[name] = sum(rows) / len(rows)
        return found


class Pricer:
    """The reward rate, the price of a second, the chains and the solution buffer of one run.

    `rules` (an environment) say how its attempts are ranked and rewarded; without a `buffer` there is no bonus.
    `deadline` is a chain's share of the budget of script seconds, for a price that needs it. Row i of a batch is chain
    i; `attempts_per_prompt` chains side by side get one parent: what the policy's algorithm compares.
    `described`: the estimator is also told what was known of each attempt (`rates.known`).
    """

    def __init__(
        self,
        rules: RewardRules,
        objective: Objective,
        estimator: Estimator,
        chains: Accumulators,
        *,
        buffer: SolutionBuffer | None = None,
        overhead: Overhead = Overhead(),  # noqa: B008
        price: PriceRule = RatePrice(),  # noqa: B008
        deadline: float | None = None,
        attempts_per_prompt: int = 1,
        described: bool = False,
    ) -> None:
        self.rules, self.objective, self.estimator = rules, objective, estimator
        self.chains, self.buffer, self.overhead = chains, buffer, overhead
        self.price_of_second, self.deadline = price, deadline
        self.attempts_per_prompt, self.described = attempts_per_prompt, described

    @property
    def priced(self) -> bool:
        """Whether seconds cost anything in this arm."""
        return self.objective.arm != "vanilla"

    def parents(self) -> list[Solution | None]:
        """The solution that each chain improves, best first and from the top again; None asks for a first solution."""
        group = self.attempts_per_prompt
        return [parent for parent in self.select(self.chains.chains // group) for _ in range(group)]

    def select(self, prompts: int) -> list[Solution | None]:
        """The solutions to improve in so many prompts."""
        chosen = [] if self.buffer is None else self.buffer.select(prompts)
        return list(chosen) if chosen else [None] * prompts

    def charged(self, outcome: Outcome, generation_seconds: float) -> Outcome:
        """The outcome with its overhead."""
        return self.overhead.added(outcome, generation_seconds)

    def price(
        self,
        outcomes: Sequence[Outcome],
        *,
        step: int = 0,
        attempts: Sequence[int] = (),
        parent_codes: Sequence[str | None] | None = None,
        generation_seconds: Sequence[float] | None = None,
        chains: Sequence[int] | None = None,
    ) -> Priced:
        """One step's batch: outcomes with their overhead, their attempt numbers, what each was asked to change.

        `chains`: which chain each belongs to; unless given, row i to chain i.
        A failure of the sandbox enters neither the rate nor the buffer and has no reward. A failure of the policy pays
        for the limit, and for the overhead that it had too.
        """
        parent_codes = parent_codes or [None] * len(outcomes)
        generation_seconds = generation_seconds or [0.0] * len(outcomes)
        rate = self.fit(outcomes, chains, parent_codes)
        charged = self._price_of_a_second(outcomes, rate)
        limits = [self.rules.limit_seconds + self.overhead.extra(seconds) for seconds in generation_seconds]
        relative = self.objective.relative(outcomes, charged, limit_seconds=limits)
        if not self.priced:
            own = [self.rules.vanilla_reward(outcome) for outcome in outcomes]
            relative = [old if old is None or new is None else new for old, new in zip(relative, own, strict=True)]
        bonuses = [self.rules.extra_reward(outcome, priced=self.priced) for outcome in outcomes]
        if self.buffer is not None:
            improved = self.objective.bonuses(outcomes, self.buffer.best_reward)
            bonuses = [extra + bonus for extra, bonus in zip(bonuses, improved, strict=True)]
            self.buffer.absorb(
                outcomes,
                attempts,
                step,
                self.objective.buffer_price(charged),
                ranking_rewards=[self.rules.ranking_reward(outcome, priced=self.priced) for outcome in outcomes],
                parent_codes=[self.rules.base_code if code is None else code for code in parent_codes],
            )
        return Priced(rate, self.objective.price(charged), relative, bonuses, outcomes)

    def fit(
        self,
        outcomes: Sequence[Outcome],
        chains: Sequence[int] | None = None,
        parent_codes: Sequence[str | None] | None = None,
    ) -> RateEstimate:
        """Rho after these outcomes: from the chains' totals, the attempts, or these and what was known of them."""
        add = self.chains.update if chains is None else functools.partial(self.chains.add, chains)
        add(
            [outcome.reward for outcome in outcomes],
            [outcome.seconds for outcome in outcomes],
            [outcome.valid for outcome in outcomes],
            present=[outcome.charged for outcome in outcomes],
        )
        if not self.described:
            return self.chains.fit(self.estimator)
        pairs = zip(outcomes, parent_codes or [None] * len(outcomes), strict=True)
        taken = [(one, known(one.code, parent)) for one, parent in pairs if one.charged and self._counts(one)]
        if not taken:
            return self.estimator.estimate
        update: Callable[..., RateEstimate] = self.estimator.update
        return update(
            [one.reward if one.valid else 0.0 for one, _ in taken],
            [one.seconds for one, _ in taken],
            features=[features for _, (features, _) in taken],
            state=[state for _, (_, state) in taken],
        )

    def _counts(self, outcome: Outcome) -> bool:
        """Whether the rate is fitted on an attempt: not on failures, where the recipe says so."""
        return outcome.valid or self.chains.invalid == "zero"

    def _price_of_a_second(self, outcomes: Sequence[Outcome], rate: RateEstimate) -> float:
        """What a second costs after these outcomes; the objective charges its share of it."""
        charged = [outcome for outcome in outcomes if outcome.charged]
        return self.price_of_second.update(
            [outcome.reward if outcome.valid else 0.0 for outcome in charged],
            [outcome.seconds for outcome in charged],
            rate=rate.rate,
            chains=self.chains.chains,
            deadline=self.deadline,
        )

    def start_with(self, known: Sequence[KnownSolution]) -> None:
        """Fill the empty buffer with the solutions that a run starts with."""
        solutions = [
            Solution(
                attempt=-number,
                code=one.outcome.code,
                message=one.outcome.message,
                reward=one.outcome.reward,
                seconds=one.outcome.seconds,
                step=0,
                record=one.outcome.reward,
                ranking_reward=self.rules.ranking_reward(one.outcome, priced=self.priced),
                seed=one.name,
            )
            for number, one in enumerate(known, start=1)
        ]
        if self.buffer is not None:
            self.buffer.start_with(solutions)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON: a state by name."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one that does not fit is refused, and nothing is changed."""
        parts = self._parts()
        missing = [name for name in parts if name not in state]
        if missing == [self.price_of_second.name]:
            rule = "the run was begun without a deadline or at another price, and this one knows nothing of its steps"
            raise InputError("price", self.price_of_second.name, rule, "use another --out")
        if missing:
            raise InputError("state", sorted(state), f"it lacks {', '.join(missing)}")
        before = self.state_dict()
        try:
            for name, part in parts.items():
                part.load_state_dict(state[name])
        except InputError:
            for name, part in parts.items():
                part.load_state_dict(before[name])
            raise

    def _parts(self) -> dict[str, Any]:
        parts = {"estimator": self.estimator, "chains": self.chains, "buffer": self.buffer}
        parts |= {self.price_of_second.name: self.price_of_second} if self.price_of_second.state_dict() else {}
        return {name: part for name, part in parts.items() if part is not None}
