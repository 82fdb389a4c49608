"""Algorithm 1 without its learner: prompts from the buffer, outcomes in, rewards out, for engines of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewardrate.attempt import SANDBOX_FAILURE, Message, Outcome, Parent, Proposal
from rewardrate.checks import at_least
from rewardrate.environments import unrun
from rewardrate.errors import InputError
from rewardrate.runlog import Origin, RunLog
from rewardrate.sandbox import Executor
from rewardrate.training.buffer import Solution
from rewardrate.training.pricer import Priced
from rewardrate.training.recipe import Recipe

MISSING = unrun(SANDBOX_FAILURE, "it never came back")


class PricedBatch:
    """A recipe's run for an engine that samples and learns itself: prompts out, outcomes in, rewards out.

    Algorithm 1 is `training.Pricer`; this adds what such an engine does not have: the recipe's environment, rows that
    never came back, numbers for its curves. `executor` runs the scripts, `count` counts the tokens of a text for
    prompts with a limit. The recipe's policy is not used.
    """

    def __init__(self, recipe: Recipe, executor: Executor, count: Callable[[str], int] = len) -> None:
        if recipe.price == "horizon":
            rule, remedy = "the deadline is kept by rewardrate train alone", 'use rewardrate train, or price = "rate"'
            raise InputError("price", recipe.price, rule, remedy)
        if recipe.schedule == "stream":
            rule, remedy = "an engine that samples and learns itself has its own", 'use rewardrate train, or "step"'
            raise InputError("schedule", recipe.schedule, rule, remedy)
        setup = recipe.setup()
        self.recipe = recipe
        self.setup = setup
        self.cores = setup.cores
        "Cores of one script."
        self.environment = setup.environment(executor, count)
        self.pricer = recipe.make_pricer(self.environment)
        self.step = 0

    def parents(self, count: int | None = None) -> list[Solution | None]:
        """The solutions to improve, best first and from the top again; None asks for a first solution."""
        return self.pricer.select(self.recipe.batch if count is None else count)

    def prompt(self, parent: Solution | None) -> list[Message]:
        """The chat that asks for an improvement of `parent`, or for a first solution."""
        return self.environment.prompt(None if parent is None else Parent(parent.code, parent.message))

    def price(
        self,
        outcomes: Sequence[Outcome | None],
        *,
        parent_codes: Sequence[str | None] | None = None,
        generation_seconds: Sequence[float] | None = None,
    ) -> Priced:
        """Fit the rate on the whole batch and charge it: row i of the batch is chain i, as in `training.Loop`.

        None stands for a row that never came back: it is not charged, and enters neither rate nor buffer.
        """
        size = self.recipe.batch
        if len(outcomes) != size:
            raise InputError("outcomes", len(outcomes), f"a batch has {size} rows", "put None where it lacks one")
        spent = generation_seconds or [0.0] * size
        rows = [
            self.pricer.charged(MISSING if outcome is None else outcome, seconds)
            for outcome, seconds in zip(outcomes, spent, strict=True)
        ]
        first = self.step * size + 1
        priced = self.pricer.price(
            rows,
            step=self.step + 1,
            attempts=range(first, first + size),
            parent_codes=parent_codes,
            generation_seconds=spent,
        )
        self.step += 1
        return priced

    def record(
        self,
        log: RunLog,
        priced: Priced,
        proposals: Sequence[Proposal],
        origins: Sequence[Origin],
        phases: Mapping[str, float] | None = None,
    ) -> None:
        """Write the batch that was priced last into a run folder; row i of `proposals` and `origins` is chain i.

        What the log holds of this step and later ones was done before the engine went back to its checkpoint: it is
        dropped. The states written with it are for the log to forget old tokens by; the engine keeps its own.
        """
        log.rewind(self.step - 1)
        log.begin_step(self.step, proposals, origins)
        for row, outcome in enumerate(priced.outcomes):
            log.outcome(self.step, row, outcome)
            if not outcome.charged:
                log.note("sandbox-failure", f"step {self.step}, row {row}: {outcome.message}")
        log.commit_step(
            self.step,
            priced.rate,
            priced.relative,
            priced.bonuses,
            metrics=priced.metrics(),
            phases=phases,
            states=self.state_dict(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        return {"task": self.recipe.task, "step": self.step, **self.pricer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one of another task or of other settings is refused, and nothing is changed."""
        if not isinstance(state, Mapping) or set(state) != set(self.state_dict()):
            raise InputError("state", state, "it is not the state of a batch")
        if state["task"] != self.recipe.task:
            rule = f"it was saved with another task, and this is {self.recipe.task}"
            raise InputError("state.task", state["task"], rule, "name that task, or start anew")
        step = at_least("state.step", state["step"], 0)
        self.pricer.load_state_dict(state)
        self.step = step
