"""Algorithm 1: propose, execute, price a second, learn; killed at any moment, it resumes exactly."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from rewardrate.attempt import Message, Outcome, Parent, Proposal
from rewardrate.config import AtLeast
from rewardrate.environments.environment import Environment
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.policies.policy import Policy
from rewardrate.rates import RateEstimate
from rewardrate.runlog import Origin, Recorded, RunLog
from rewardrate.training.buffer import Solution
from rewardrate.training.pricer import Priced, Pricer

Steps = Mapping[int, tuple[Recorded, ...]]
"Step -> its recorded proposals, with the outcomes that are known."


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


@dataclass
class Loop:
    """One run: one arm, one task, one seed. `run` is the algorithm; everything else serves it."""

    environment: Environment
    policy: Policy
    pricer: Pricer
    log: RunLog
    budget: Budget
    seed: int = 0
    checkpoint_every: int = 1
    "Steps between checkpoints; a step in between is worked through again from the record after a crash."
    on_phase: Callable[[str], None] | None = None
    "Told what begins: propose, execute, fit, learn, save."
    on_attempt: Callable[[int, Outcome], None] | None = None
    on_step: Callable[[Step], None] | None = None
    phases: dict[str, float] = field(default_factory=dict)
    attempts: list[int] = field(default_factory=list)
    _last: tuple[int, Priced, bool] | None = None

    def run(self) -> None:
        """Algorithm 1 of the paper, until the budget is used up."""
        recorded, start = self.resume()
        for step in self.steps(start):
            parents = self.pricer.parents()  # state s_t
            proposals = self.propose(step, parents, recorded)  # a_t ~ pi(. | s_t)
            outcomes = self.execute(step, proposals, parents, recorded)  # r_{t+1}, delta_{t+1}
            priced = self.price(step, proposals, outcomes, parents)  # rho_{t+1} = f_rho(B); r - rho * delta; B anew
            metrics = self.learn(proposals, priced)  # PPO
            self.commit(step, priced, metrics)
            if self.on_step is not None:
                self.on_step(Step(step, outcomes, priced.rate, metrics, self.phases))
            self.stop_if_broken(step, outcomes, recorded)
        self.checkpoint_last()

    def resume(self) -> tuple[Steps, int]:
        """Everything back to the latest resume point; what was recorded after it is used again, not repeated."""
        found = self.log.resume()
        if found.step:
            self.restore(found.states)
        if found.checkpoint is not None:
            self.policy.load(found.checkpoint)
        return found.recorded, found.step + 1

    def restore(self, states: Mapping[str, Any]) -> None:
        """The states of a resume point."""
        self.pricer.load_state_dict(states)

    def steps(self, start: int) -> Iterator[int]:
        """Step numbers while the budget lasts. Steps that are in the record are always worked through."""
        step = start
        while step <= self.log.last_step() or not self._spent(step - 1):
            self.phases = {}
            yield step
            step += 1

    def propose(self, step: int, parents: Sequence[Solution | None], recorded: Steps) -> list[Proposal]:
        """New proposals, on record before any is executed; or those that are on record already."""
        if step in recorded:
            self.attempts = [row.attempt for row in recorded[step]]
            return [row.proposal for row in recorded[step]]
        with self._timed("propose"):
            prompts = [self.environment.prompt(parent_of(solution)) for solution in parents]
            proposals = self.policy.propose(prompts, seed_of(self.seed, step))
        origins = [origin_of(prompt, parent) for prompt, parent in zip(prompts, parents, strict=True)]
        self.attempts = self.log.begin_step(step, proposals, origins)
        return proposals

    def execute(
        self,
        step: int,
        proposals: Sequence[Proposal],
        parents: Sequence[Solution | None],
        recorded: Steps,
    ) -> list[Outcome]:
        """Run what has not been run yet; every outcome is on record as soon as it is there.

        A resumed step has the parents it had: the buffer that chose them is what it was.
        """
        outcomes = {place: row.outcome for place, row in enumerate(recorded.get(step, ())) if row.outcome is not None}
        places = [place for place in range(len(proposals)) if place not in outcomes]

        replies, chosen = [proposals[place].text for place in places], [parent_of(parents[place]) for place in places]
        with self._timed("execute"), contextlib.closing(self.environment.stream(replies, chosen)) as ended:
            for at, found in ended:
                place = places[at]
                outcome = self.pricer.charged(found, proposals[place].seconds)
                self.log.outcome(step, place, outcome)
                outcomes[place] = outcome
                if self.on_attempt is not None:
                    self.on_attempt(place, outcome)
        missing = sorted(set(range(len(proposals))) - outcomes.keys())
        if missing:
            rule = "its stream ended without an outcome for them"
            raise InputError("environment", f"rows {missing}", rule, "rewardrate environment check finds such faults")
        for place, outcome in sorted(outcomes.items()):
            if not outcome.charged and place in places:
                self.log.note("sandbox-failure", f"step {step}, row {place}: {outcome.message}")
        return [outcomes[place] for place in range(len(proposals))]

    def price(
        self,
        step: int,
        proposals: Sequence[Proposal],
        outcomes: Sequence[Outcome],
        parents: Sequence[Solution | None],
    ) -> Priced:
        """Fit the rate, charge every attempt for its time, feed the buffer."""
        with self._timed("fit"):
            return self.pricer.price(
                outcomes,
                step=step,
                attempts=self.attempts,
                parent_codes=[None if parent is None else parent.code for parent in parents],
                generation_seconds=[proposal.seconds for proposal in proposals],
            )

    def learn(self, proposals: Sequence[Proposal], priced: Priced) -> dict[str, float]:
        """One update of the policy on relative reward plus bonus; the price goes on record where it is not the rate."""
        usual = self.pricer.objective.price(priced.rate)
        price = {} if priced.price == usual else {"price": priced.price}
        if all(reward is None for reward in priced.rewards):
            return price  # our own failures teach nothing
        with self._timed("learn"):
            return self.policy.learn(proposals, priced.rewards) | price

    def commit(self, step: int, priced: Priced, metrics: dict[str, float]) -> None:
        """The step has happened: in one transaction, after its checkpoint is in place."""
        states, checkpoint = self._saved(step) if step % self.checkpoint_every == 0 else (None, None)
        self._last = (step, priced, states is None)
        options: dict[str, Any] = {"metrics": metrics, "phases": self.phases}
        self._commit(step, priced, states=states, checkpoint=checkpoint, **options)

    def stop_if_broken(self, step: int, outcomes: Sequence[Outcome], recorded: Steps) -> None:
        """A sandbox that fails at every attempt of a step would use up the run without one: stop, and say so."""
        if step not in recorded and not any(outcome.charged for outcome in outcomes):
            why = f"every attempt of step {step} failed on our side ({outcomes[0].message})"
            raise InfrastructureError(f"{why}; nothing was charged, and the same command resumes")

    def checkpoint_last(self) -> None:
        """The last step of a run always has a checkpoint: what was trained can be used and trained further."""
        if self._last is not None and self._last[-1]:
            step, priced, _ = self._last
            states, checkpoint = self._saved(step)
            self._commit(step, priced, states=states, checkpoint=checkpoint)

    def _commit(self, step: int, priced: Priced, **options: Any) -> None:
        self.log.commit_step(step, priced.rate, priced.relative, priced.bonuses, **options)

    def _saved(self, step: int) -> tuple[dict[str, Any], str | None]:
        with self._timed("save"):
            checkpoint = self.log.checkpoint(step, self.policy.save) if self.policy.trainable else None
            return self.pricer.state_dict(), checkpoint

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

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        if self.on_phase is not None:
            self.on_phase(phase)
        start = time.monotonic()
        yield
        self.phases[phase] = self.phases.get(phase, 0.0) + time.monotonic() - start


def parent_of(solution: Solution | None) -> Parent | None:
    """What the environment is told of the solution that an attempt is to improve."""
    return None if solution is None else Parent(solution.code, solution.message)


def origin_of(prompt: Sequence[Message], parent: Solution | None) -> Origin:
    """What the record says of where a proposal came from."""
    return Origin(prompt) if parent is None else Origin(prompt, parent.number, parent.seed)


def seed_of(seed: int, step: int) -> int:
    """A seed of its own for every step: a resumed run draws what the uninterrupted one draws."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)
