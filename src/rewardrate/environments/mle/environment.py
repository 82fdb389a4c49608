"""The machine-learning environment: replies in, outcomes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from rewardrate.attempt import Message, Outcome, Parent
from rewardrate.config import AtLeast
from rewardrate.environments.environment import EnvironmentSettings, RunSetup, measured
from rewardrate.environments.mle import lite, messages, prompts
from rewardrate.environments.mle.extraction import extract
from rewardrate.environments.mle.folder import BENCH, load
from rewardrate.environments.mle.hiding import hidden_paths
from rewardrate.environments.mle.messages import Detail
from rewardrate.environments.mle.preparation import prepare
from rewardrate.environments.mle.reading import trains
from rewardrate.environments.mle.references import measured_scripts
from rewardrate.environments.mle.rewards import Kind
from rewardrate.environments.mle.task import Grade, Task
from rewardrate.environments.sandboxed import SandboxedEnvironment, Split
from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Job, Limits, Result

SUBMISSION = "submission.csv"
OUTPUT_CHARACTERS = 2000


@dataclass(frozen=True)
class Settings(EnvironmentSettings):
    """How attempts at a task are run and judged."""

    kind: Literal["mle"] = "mle"
    reward: Kind | None = None
    "gain, raw or percentile; the task's own unless given."
    time_limit: Annotated[float, AtLeast(0.1)] | None = None
    "Seconds after which a script is killed; the task's own unless given."
    cores: Annotated[int, AtLeast(1)] = 2
    "Cores that belong to one script while it is timed."
    memory_bytes: int = 16 * 2**30
    "Memory of one script with all its processes."
    minimum: str = "namespaces"
    "The weakest isolation to accept (docs/sandbox.md)."
    message: Detail = "score and seconds"
    "What a valid attempt is told; the authors' code tells the score alone."
    prompt: Literal["full", "compact"] = "full"
    "Compact: few tokens, for small models."
    prompt_tokens: int | None = None
    "A longer prompt is shortened (the parent's code, never its meaning); 2560 in the paper."
    leaderboards: str | None = None
    "Folder of leaderboards for mlebench:ID, in place of MLE-Bench's own (docs/mle-bench.md)."

    def check(self, task: str) -> None:
        """InputError for a task that there is not."""
        if task.startswith(BENCH):
            lite.find(task.removeprefix(BENCH))
        else:
            load(task)

    def setup(self, task: str, clock: str) -> TaskSetup:
        """The task, its data prepared."""
        return TaskSetup(task, self)

    def planned_limit(self, task: str) -> float:
        """The recipe's, or else the task's own."""
        return load(task, leaderboards=self.leaderboards).limit_seconds if self.time_limit is None else self.time_limit

    def planned_scripts(self, task: str) -> Sequence[tuple[float, float]]:
        """Those of its reference scripts."""
        found = load(task, leaderboards=self.leaderboards)
        return measured_scripts(found, self.reward or found.reward, self.cores)


class MachineLearning(SandboxedEnvironment):
    """One task as an environment: prompts, execution in the sandbox, grading, reward, message."""

    def __init__(
        self,
        task: Task,
        executor: Executor,
        settings: Settings = Settings(),  # noqa: B008
        count: Callable[[str], int] = len,
    ) -> None:
        task.require_data()
        self.kind: Kind = settings.reward or task.reward
        task.check_kind(self.kind)
        self.task, self.executor, self.settings = task, executor, settings
        self._count = count
        self._order = order(task, settings)
        self.limit_seconds = self._order.limits.seconds

    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """The base prompt, or the self-improvement prompt for `parent`."""
        compact = self.settings.prompt == "compact"
        limit = self.settings.prompt_tokens
        seconds = self.limit_seconds
        return prompts.build(
            self.task, parent, compact=compact, limit_tokens=limit, count=self._count, limit_seconds=seconds
        )

    def extract(self, reply: str) -> str:
        """The script that the reply means."""
        found = extract(reply)
        if found.code is None:
            raise InputError("reply", reply[:80], found.problem)
        return found.code

    def job(self, code: str, split: Split) -> Job:
        """The script with the task's data; the split matters when it is graded."""
        return replace(self._order, script=code)

    def run(self, codes: Sequence[str], *, split: Split = "reward") -> list[Outcome]:
        """Run scripts as they are and grade them on one split; `report` is for the end, once."""
        if split == "report":
            self.task.grade(b"", split)  # a task without that split says so before anything runs
        return super().run(codes, split=split)

    def final_evaluation(self, code: str) -> Outcome | None:
        """The script once more, graded on the report split; None for a task without one."""
        if not (self.task.private / "split.csv").exists():
            return None
        return self.run([code], split="report")[0]

    def judge(self, code: str, result: Result, split: Split = "reward") -> Outcome:
        """Status, score, reward and message of one run. Valid: exit code 0, graded, and better than doing nothing."""
        output = (result.stdout + result.stderr)[-OUTPUT_CHARACTERS:]
        outcome = replace(measured(result, code), trains=trains(code), output=output)
        if result.status == "error":
            return replace(outcome, message=messages.crash(code, result.stderr, result.exit_code))
        if result.status != "ok":
            return outcome
        if SUBMISSION not in result.files:
            why = result.refused.get(SUBMISSION, "missing")
            if why == "missing":
                return replace(outcome, status="no-submission", message=f"it ended without writing {SUBMISSION}")
            return replace(outcome, status="bad-submission", message=f"{SUBMISSION} was not accepted: {why}")
        return self._graded(outcome, self.task.grade(result.files[SUBMISSION], split), split)

    def _graded(self, outcome: Outcome, grade: Grade, split: Split) -> Outcome:
        detail = self.settings.message
        if not grade.valid or grade.score is None:
            return replace(outcome, status="bad-submission", message=grade.message)
        if not self.task.gains(grade.score, self.kind, split):
            words = messages.no_gain(self.task, grade.score, outcome.seconds, detail)
            return replace(outcome, score=grade.score, status="no-gain", message=words)
        words = messages.success(self.task, grade.score, outcome.seconds, detail)
        reward = self.task.reward_of(grade.score, self.kind, split)
        if not math.isfinite(reward):
            return replace(outcome, status="bad-submission", message=f"its score {grade.score:g} is out of range")
        return replace(outcome, valid=True, reward=reward, score=grade.score, message=words)


class TaskSetup(RunSetup):
    """A machine-learning task for a recipe."""

    def __init__(self, task: str, settings: Settings) -> None:
        self.settings, self.cores = settings, settings.cores
        self.task = load(task, leaderboards=settings.leaderboards)
        if not task.startswith(BENCH):
            prepare(self.task)

    def facts(self) -> Mapping[str, str]:
        """The metric and its direction."""
        return {"metric": self.task.metric, "direction": self.task.direction}

    def environment(self, executor: Executor, count: Callable[[str], int]) -> MachineLearning:
        """The task, run by the executor."""
        return MachineLearning(self.task, executor, self.settings, count)


def order(task: Task, settings: Settings = Settings()) -> Job:  # noqa: B008
    """What the sandbox is asked for every script of a task; only the script itself is still to be filled in."""
    task.require_data()
    limits = Limits(
        seconds=task.limit_seconds if settings.time_limit is None else settings.time_limit,
        cores=settings.cores,
        memory_bytes=settings.memory_bytes,
        file_bytes=max(2**20, task.submission_bytes),
    )
    data = {path.name: path for path in sorted(task.public.iterdir())}
    hide = hidden_paths(task)
    return Job("", limits, data=data, collect=(SUBMISSION,), hide=hide, minimum=settings.minimum)
