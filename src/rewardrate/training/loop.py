"""Algorithm 1: propose, execute, price a second, learn; killed at any moment, it goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from rewardrate.attempt import Outcome, Parent, Proposal
from rewardrate.config import AtLeast
from rewardrate.environments.environment import Environment
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.policies.policy import Policy
from rewardrate.rates import Accumulators, Horizon, RateEstimate
from rewardrate.rates.estimate import Estimator
from rewardrate.runlog import Origin, Recorded, RunLog
from rewardrate.training.buffer import Solution, SolutionBuffer
from rewardrate.training.objective import Objective, Overhead


@dataclass(frozen=True)
class Budget:
    """When a run ends: at the first limit that is reached. At least one must be set."""

    steps: Annotated[int, AtLeast(1)] | None = None
    "Updates of the policy."
    script_seconds: Annotated[float, AtLeast(0.1)] | None = None
    "Seconds of all scripts together, on the priced clock."
    wall_seconds: Annotated[float, AtLeast(0.001)] | None = None
    "Seconds of the whole run on the wall clock, generation and learning included."


@dataclass(frozen=True)
class Step:
    """What one step came to, for whoever watches."""

    step: int
    outcomes: Sequence[Outcome]
    rate: RateEstimate
    metrics: dict[str, float]
    phases: dict[str, float]
    buffer: int


@dataclass
class Loop:
    """One run: one arm, one task, one seed. `run` is the algorithm; everything else serves it."""

    environment: Environment
    policy: Policy
    estimator: Estimator
    chains: Accumulators
    buffer: SolutionBuffer
    objective: Objective
    log: RunLog
    budget: Budget
    seed: int = 0
    overhead: Overhead = field(default_factory=Overhead)
    horizon: Horizon | None = None
    "The price that knows the deadline (budget.script_seconds); None charges the rate."
    checkpoint_every: int = 1
    "Steps between checkpoints; a step in between is worked through again from the record after a crash."
    on_attempt: Callable[[int, Outcome], None] | None = None
    on_step: Callable[[Step], None] | None = None
    phases: dict[str, float] = field(default_factory=dict)
    attempts: list[int] = field(default_factory=list)
    _last: tuple[int, RateEstimate, Sequence[float | None], Sequence[float], bool] | None = None

    def run(self) -> None:
        """Algorithm 1 of the paper, until the budget is used up."""
        recorded, start = self.resume()
        for step in self.steps(start):
            parents = self.parents()  # state s_t
            proposals = self.propose(step, parents, recorded)  # a_t ~ pi(. | s_t)
            outcomes = self.execute(step, proposals, parents, recorded)  # r_{t+1}, delta_{t+1}
            rate = self.fit(outcomes)  # rho_{t+1} = f_rho(B)
            price = self.price(outcomes, rate)  # of a second: rho, or what it can still earn before the deadline
            relative = self.relative(outcomes, proposals, price)  # r - rho * delta
            bonuses = self.objective.bonuses(outcomes, self.buffer.best_reward)
            self.absorb(step, outcomes, parents, price)  # B, ranked anew
            metrics = self.learn(proposals, relative, bonuses) | self._priced(price)  # PPO
            self.commit(step, rate, relative, bonuses, metrics)
            if self.on_step is not None:
                self.on_step(Step(step, outcomes, rate, metrics, self.phases, len(self.buffer)))
            self.stop_if_broken(step, outcomes, recorded)
        self.seal()

    def resume(self) -> tuple[Mapping[int, tuple[Recorded, ...]], int]:
        """Everything back to the latest resume point; what was recorded after it is used again, not repeated."""
        found = self.log.resume()
        if found.step:
            for name, part in self._parts().items():
                if name not in found.states:
                    rule = "the run was begun without a deadline, and its price knows nothing of the steps so far"
                    raise InputError("budget.script_seconds", self.budget.script_seconds, rule, "use another --out")
                part.load_state_dict(found.states[name])
        if found.checkpoint is not None:
            self.policy.load(found.checkpoint)
        return found.recorded, found.step + 1

    def steps(self, start: int) -> Iterator[int]:
        """Step numbers while the budget lasts. Steps that are in the record are always worked through."""
        step = start
        while step <= self.log.last_step() or not self._spent(step - 1):
            self.phases = {}
            yield step
            step += 1

    def parents(self) -> list[Solution | None]:
        """The solutions to improve, one a chain; None asks for a first solution."""
        chosen = self.buffer.select(self.chains.chains)
        return list(chosen) if chosen else [None] * self.chains.chains

    def propose(
        self, step: int, parents: Sequence[Solution | None], recorded: Mapping[int, tuple[Recorded, ...]]
    ) -> list[Proposal]:
        """New proposals, on record before any is executed; or those that are on record already."""
        if step in recorded:
            self.attempts = [row.attempt for row in recorded[step]]
            return [row.proposal for row in recorded[step]]
        with self._timed("propose"):
            prompts = [self.environment.prompt(_parent(solution)) for solution in parents]
            proposals = self.policy.propose(prompts, _seed(self.seed, step))
        origins = [
            Origin(prompt) if parent is None else Origin(prompt, parent.number, parent.seed)
            for prompt, parent in zip(prompts, parents, strict=True)
        ]
        self.attempts = self.log.begin_step(step, proposals, origins)
        return proposals

    def execute(
        self,
        step: int,
        proposals: Sequence[Proposal],
        parents: Sequence[Solution | None],
        recorded: Mapping[int, tuple[Recorded, ...]],
    ) -> list[Outcome]:
        """Run what has not been run yet; every outcome is on record as soon as it is there.

        A resumed step has the parents it had: the buffer that chose them is what it was.
        """
        outcomes = {place: row.outcome for place, row in enumerate(recorded.get(step, ())) if row.outcome is not None}
        places = [place for place in range(len(proposals)) if place not in outcomes]

        def done(at: int, outcome: Outcome) -> None:
            outcome = self.overhead.added(outcome, proposals[places[at]].seconds)
            self.log.outcome(step, places[at], outcome)
            outcomes[places[at]] = outcome
            if self.on_attempt is not None:
                self.on_attempt(places[at], outcome)

        with self._timed("execute"):
            chosen = [_parent(parents[place]) for place in places]
            self.environment.execute([proposals[place].text for place in places], done, chosen)
        for place, outcome in sorted(outcomes.items()):
            if not outcome.charged and place in places:
                self.log.note("sandbox-failure", f"step {step}, row {place}: {outcome.message}")
        return [outcomes[place] for place in range(len(proposals))]

    def fit(self, outcomes: Sequence[Outcome]) -> RateEstimate:
        """The price of a second after this step, from the chains' totals."""
        with self._timed("fit"):
            self.chains.update(
                [outcome.reward for outcome in outcomes],
                [outcome.seconds for outcome in outcomes],
                [outcome.valid for outcome in outcomes],
                present=[outcome.charged for outcome in outcomes],
            )
            return self.chains.fit(self.estimator)

    def price(self, outcomes: Sequence[Outcome], rate: RateEstimate) -> float:
        """What a second is worth, before the objective's share of it is charged."""
        if self.horizon is None or self.budget.script_seconds is None:
            return rate.rate
        charged = [outcome for outcome in outcomes if outcome.charged]
        return self.horizon.update(
            [outcome.reward if outcome.valid else 0.0 for outcome in charged],
            [outcome.seconds for outcome in charged],
            chains=self.chains.chains,
            deadline=self.budget.script_seconds / self.chains.chains,
        )

    def relative(self, outcomes: Sequence[Outcome], proposals: Sequence[Proposal], price: float) -> list[float | None]:
        """Rewards after paying for the time; a failure pays for the limit, and for the overhead that it had too."""
        limits = [self.environment.limit_seconds + self.overhead.extra(proposal.seconds) for proposal in proposals]
        return self.objective.relative(outcomes, price, limit_seconds=limits)

    def absorb(self, step: int, outcomes: Sequence[Outcome], parents: Sequence[Solution | None], price: float) -> None:
        """The valid attempts into the buffer, all of it ranked by this arm's objective at this step's price."""
        worth = [self.objective.worth(outcome) for outcome in outcomes]
        base = getattr(self.environment, "base_code", None)  # what a first proposal changes, where it changes something
        codes = [base if parent is None else parent.code for parent in parents]
        charged = self.objective.buffer_price(price)
        self.buffer.absorb(outcomes, self.attempts, step, charged, worth=worth, parent_codes=codes)

    def learn(
        self, proposals: Sequence[Proposal], relative: Sequence[float | None], bonuses: Sequence[float]
    ) -> dict[str, float]:
        """One update of the policy on relative reward plus bonus."""
        rewards = [None if left is None else left + bonus for left, bonus in zip(relative, bonuses, strict=True)]
        if all(reward is None for reward in rewards):
            return {}  # our own failures teach nothing
        with self._timed("learn"):
            return self.policy.learn(proposals, rewards)

    def commit(
        self,
        step: int,
        rate: RateEstimate,
        relative: Sequence[float | None],
        bonuses: Sequence[float],
        metrics: dict[str, float],
    ) -> None:
        """The step has happened: in one transaction, after its checkpoint is in place."""
        states, checkpoint = self._saved(step) if step % self.checkpoint_every == 0 else (None, None)
        self._last = (step, rate, relative, bonuses, states is None)
        options: dict[str, Any] = {"metrics": metrics, "phases": self.phases}
        self.log.commit_step(step, rate, relative, bonuses, states=states, checkpoint=checkpoint, **options)

    def stop_if_broken(
        self, step: int, outcomes: Sequence[Outcome], recorded: Mapping[int, tuple[Recorded, ...]]
    ) -> None:
        """A sandbox that fails at every attempt of a step would use up the run without one: stop, and be told."""
        if step not in recorded and not any(outcome.charged for outcome in outcomes):
            why = f"every attempt of step {step} failed on our side ({outcomes[0].message})"
            raise InfrastructureError(f"{why}; nobody is charged, and the same command goes on")

    def seal(self) -> None:
        """The last step of a run always has a checkpoint: what was trained can be used and trained further."""
        if self._last is not None and self._last[-1]:
            step, rate, relative, bonuses, _ = self._last
            states, checkpoint = self._saved(step)
            self.log.commit_step(step, rate, relative, bonuses, states=states, checkpoint=checkpoint)

    def _saved(self, step: int) -> tuple[dict[str, Any], str | None]:
        with self._timed("save"):
            states = {name: part.state_dict() for name, part in self._parts().items()}
            return states, self.log.checkpoint(step, self.policy.save) if self.policy.trainable else None

    def _spent(self, step: int) -> bool:
        """Whether the budget is used up after so many steps."""
        if self.budget.steps is not None and step >= self.budget.steps:
            return True
        steps = self.log.steps()
        if not steps:
            return False
        limit = self.budget.script_seconds
        if limit is not None and steps[-1].script_seconds >= limit:
            return True
        limit = self.budget.wall_seconds
        return limit is not None and sum(sum(row.phases.values()) for row in steps) >= limit

    def _parts(self) -> dict[str, Any]:
        parts = {"estimator": self.estimator, "chains": self.chains, "buffer": self.buffer}
        return parts if self.horizon is None else parts | {"horizon": self.horizon}

    def _priced(self, price: float) -> dict[str, float]:
        """The price on record, where it is not the rate."""
        return {} if self.horizon is None else {"price": self.objective.price(price)}

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.phases[phase] = self.phases.get(phase, 0.0) + time.monotonic() - start


def _parent(solution: Solution | None) -> Parent | None:
    return None if solution is None else Parent(solution.code, solution.message)


def _seed(seed: int, step: int) -> int:
    """A seed of its own for every step: a resumed run draws what the uninterrupted one draws."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)
