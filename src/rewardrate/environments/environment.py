"""What every kind of environment tells the loop, and what a recipe needs before there is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rewardrate.attempt import FLOOR_SECONDS, Message, Outcome, Parent, Status, collect
from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Result

GROUP = "rewardrate.environments"  # of entry points: name of a kind -> its EnvironmentSettings

Outcomes = Generator[tuple[int, Outcome], None, None]
"(index, outcome) as each attempt ends."


@dataclass(frozen=True)
class KnownSolution:
    """A solution that the buffer of a run starts with, by name (the race calls it a seed)."""

    name: str
    outcome: Outcome
    "What it came to; its `code` is the script."


class RewardRules:
    """How attempts are rewarded and ranked. The defaults are the paper's for machine-learning tasks."""

    limit_seconds: float
    "The longest an attempt may take: what a failure is charged for."
    base_code: str | None = None
    "What a proposal without a parent changes; None where it starts from nothing."

    def ranking_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """What the solution buffer ranks a valid attempt by, before it pays for its seconds (`priced`: arm rpg)."""
        return outcome.reward

    def extra_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """Reward for the learner alone, on top of the attempt's own: it does not enter the rate."""
        return 0.0

    def vanilla_reward(self, outcome: Outcome) -> float | None:
        """The reward of the arm vanilla, where it is not the attempt's reward or the objective's penalty."""
        return None


class Environment(RewardRules, ABC):
    """A problem whose actions take time. `limit_seconds`, `prompt` and `stream` must be written.

    `rewardrate environment check module:Name` checks an implementation (rewardrate.environments.contract).
    """

    @abstractmethod
    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """The chat that asks for a proposal: the base prompt, or the self-improvement prompt for `parent`."""

    @abstractmethod
    def stream(self, replies: Sequence[str], parents: Sequence[Parent | None] | None = None) -> Outcomes:
        """Run every reply; (index, outcome) as each ends, in any order, every index once. Write it as a generator.

        `parents` are what the replies were asked to improve: a reply may be an edit of its parent.
        """

    def execute(self, replies: Sequence[str], parents: Sequence[Parent | None] | None = None) -> list[Outcome]:
        """Run every reply; outcomes in the order of the replies."""
        return collect(self.stream(replies, parents))

    def known_solutions(self, folder: Path) -> list[KnownSolution]:
        """The solutions that a run in this folder starts with. Called once, before the first step of every process."""
        return []

    def final_evaluation(self, code: str) -> Outcome | None:
        """The run's best script, judged once more at the end; None where there is nothing to add."""
        return None


class RunSetup(ABC):
    """What a recipe attempts: the data are prepared and the facts known; an environment is made with an executor."""

    cores: int = 1
    "Cores of one script."
    must_match: ClassVar[tuple[str, ...]] = ()
    "Facts without which two parts of a run could not be compared: a resumed run must find the same."

    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """What the record and the page say of it. `metric` and `direction` (minimize, maximize) must be among them."""

    def example_replies(self) -> list[str]:
        """Replies that are valid attempts, for the contract suite; none where the kind can give none."""
        return []

    @abstractmethod
    def environment(self, executor: Executor, count: Callable[[str], int]) -> Environment:
        """The environment; `count` counts the tokens of a text as the policy does."""


class EnvironmentSettings(ABC):
    """The table [environment] of a recipe, and what registers a kind: a frozen dataclass with a field `kind`.

    An installed package offers one as an entry point of the group `rewardrate.environments`, under the kind's name.
    """

    kind: str
    "The name of the kind."
    cores: int = 1
    "Cores of one script, as far as the recipe tells; `RunSetup.cores` is what it came to."

    def check(self, task: str) -> None:  # noqa: B027, not every kind can tell
        """InputError for a task that there is not; prepares nothing. What `rewardrate train --dry-run` asks."""

    @abstractmethod
    def setup(self, task: str, clock: str) -> RunSetup:
        """Load and prepare what `task` names; scripts are priced by `clock`. Raises InputError if it cannot be had."""

    def planned_limit(self, task: str) -> float:
        """Seconds after which an attempt at `task` is stopped, for `rewardrate plan`; prepares nothing.

        InputError for a kind that cannot be planned for, as where attempts are not ranked by their reward alone.
        """
        rule = "plans are made for machine-learning tasks"
        raise InputError("environment.kind", self.kind, rule, "name a task, a run on one, or such a recipe")

    def planned_scripts(self, task: str) -> Sequence[tuple[float, float]]:
        """(reward, seconds) of scripts for `task` that were measured, at least two, for a plan without a pilot run."""
        rule = "no measured scripts are known for this kind"
        raise InputError("environment.kind", self.kind, rule, "give the folder of a run")


def unrun(status: Status, message: str, code: str = "") -> Outcome:
    """A reply that nothing was run for, with what the model is told of it."""
    return Outcome(
        valid=False, reward=0.0, score=None, seconds=FLOOR_SECONDS, message=message, status=status, code=code
    )


def measured(result: Result, code: str) -> Outcome:
    """What the sandbox says of an attempt, not judged yet: invalid, with its status, seconds and message."""
    return Outcome(
        valid=False,
        reward=0.0,
        score=None,
        seconds=max(FLOOR_SECONDS, result.priced_seconds),
        message=result.message or result.stderr.strip().rpartition("\n")[2][-200:],
        status=result.status,
        code=code,
        clock=result.clock,
        wall_seconds=result.seconds,
        cpu_seconds=result.cpu_seconds,
        peak_memory_bytes=result.peak_memory_bytes,
        level=result.level,
        contaminated=result.contaminated,
    )
