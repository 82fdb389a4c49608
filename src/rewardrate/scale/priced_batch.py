"""Algorithm 1 without its learner: prompts from the buffer, outcomes in, rewards out, for engines of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from rewardrate.attempt import Message, Outcome, Parent
from rewardrate.checks import at_least
from rewardrate.errors import InputError
from rewardrate.rates import Accumulators, RateEstimate
from rewardrate.sandbox import Executor
from rewardrate.training.buffer import Solution
from rewardrate.training.recipe import Recipe
from rewardrate.training.worlds import TaskWorld, world

MISSING = Outcome(False, 0.0, None, 0.1, "it never came back", "sandbox-failure", "")


@dataclass(frozen=True)
class Priced:
    """What one batch came to."""

    rewards: list[float | None]
    "What the learner gets for each row: relative reward plus bonus; None leaves the row out."
    relative: list[float | None]
    bonuses: list[float]
    rate: RateEstimate
    price: float
    outcomes: list[Outcome]
    "With their overhead; a row that never came back is a sandbox-failure."

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
            ("reward", [outcome.reward for outcome in valid]),
        ):
            if rows:
                found[name] = sum(rows) / len(rows)
        return found


class PricedBatch:
    """The state that a recipe's run carries from step to step: rate, chains, solution buffer.

    `executor` runs the scripts, `count` counts the tokens of a text for prompts with a limit. The recipe's policy is
    not used: the engine has its own.
    """

    def __init__(self, recipe: Recipe, executor: Executor, count: Callable[[str], int] = len) -> None:
        attempted = world(recipe)
        if not isinstance(attempted, TaskWorld):
            remedy = "use rewardrate train"
            raise InputError("environment.kind", recipe.environment.kind, "only tasks run on other engines yet", remedy)
        if recipe.price == "horizon":
            rule, remedy = "the deadline is kept by rewardrate train alone", 'use rewardrate train, or price = "rate"'
            raise InputError("price", recipe.price, rule, remedy)
        self.recipe = recipe
        self.environment = attempted.environment(executor, cast(Any, SimpleNamespace(count=count)))
        self.cores = attempted.settings.cores
        "Cores of one script."
        self.objective = attempted.objective()
        self.estimator = recipe.make_estimator()
        self.chains = Accumulators(recipe.batch, window=recipe.window, invalid=recipe.invalid_in_fit)
        self.buffer = recipe.make_buffer()
        self.step = 0

    def parents(self, count: int | None = None) -> list[Solution | None]:
        """The solutions to improve, best first and from the top again; None asks for a first solution."""
        count = self.recipe.batch if count is None else count
        chosen = self.buffer.select(count)
        return list(chosen) if chosen else [None] * count

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

        None stands for a row that never came back: nobody is charged for it, and it enters neither rate nor buffer.
        """
        if len(outcomes) != self.recipe.batch:
            raise InputError(
                "outcomes", len(outcomes), f"a batch has {self.recipe.batch} rows", "put None where it lacks one"
            )
        spent = generation_seconds or [0.0] * len(outcomes)
        rows = [
            self.recipe.overhead.added(MISSING if outcome is None else outcome, extra)
            for outcome, extra in zip(outcomes, spent, strict=True)
        ]
        step, first = self.step + 1, self.step * self.recipe.batch + 1
        self.chains.update(
            [row.reward for row in rows],
            [row.seconds for row in rows],
            [row.valid for row in rows],
            present=[row.charged for row in rows],
        )
        rate = self.chains.fit(self.estimator)
        limits = [self.environment.limit_seconds + self.recipe.overhead.extra(extra) for extra in spent]
        relative = self.objective.relative(rows, rate, limit_seconds=limits)
        bonuses = self.objective.bonuses(rows, self.buffer.best_reward)
        price = self.objective.price(rate)
        worth = [self.objective.worth(row) for row in rows]
        attempts = range(first, first + len(rows))
        self.buffer.absorb(
            rows, attempts, step, self.objective.buffer_price(rate), worth=worth, parent_codes=parent_codes
        )
        self.step = step
        rewards = [None if left is None else left + more for left, more in zip(relative, bonuses, strict=True)]
        return Priced(rewards, relative, bonuses, rate, price, rows)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as plain JSON."""
        return {
            "task": self.recipe.task,
            "step": self.step,
            "estimator": self.estimator.state_dict(),
            "chains": self.chains.state_dict(),
            "buffer": self.buffer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; one of another task or of other settings is refused, and nothing is changed."""
        before = self.state_dict()
        if not isinstance(state, Mapping) or set(state) != set(before):
            raise InputError("state", state, "it is not the state of a batch")
        if state["task"] != self.recipe.task:
            rule = f"it was saved with another task, and this is {self.recipe.task}"
            raise InputError("state.task", state["task"], rule, "name that task, or start anew")
        step = at_least("state.step", state["step"], 0)
        try:
            self._load(state)
        except InputError:
            self._load(before)
            raise
        self.step = step

    def _load(self, state: Mapping[str, Any]) -> None:
        self.estimator.load_state_dict(state["estimator"])
        self.chains.load_state_dict(state["chains"])
        self.buffer.load_state_dict(state["buffer"])
