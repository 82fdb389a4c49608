"""Environments whose replies each become one job of the sandbox: what they have in common."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from rewardrate.attempt import Outcome, Parent, collect
from rewardrate.environments.environment import Environment, Outcomes, unrun
from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Job, Result

Split = Literal["reward", "report"]
"The data that attempts are rewarded on, and those that only the final evaluation sees."


class SandboxedEnvironment(Environment):
    """`prompt`, `extract`, `job` and `judge` must be written, and `limit_seconds` and `executor` set."""

    executor: Executor

    @abstractmethod
    def extract(self, reply: str) -> str:
        """The code in a reply. InputError where there is none: its rule is what the model is told."""

    @abstractmethod
    def job(self, code: str, split: Split) -> Job:
        """What the executor is asked to run for that code."""

    @abstractmethod
    def judge(self, code: str, result: Result, split: Split = "reward") -> Outcome:
        """What the run came to: begin with `measured`."""

    def stream(self, replies: Sequence[str], parents: Sequence[Parent | None] | None = None) -> Outcomes:
        """Take the code out of each reply and run it; no code needs its parent."""
        codes: dict[int, str] = {}
        for index, reply in enumerate(replies):
            try:
                codes[index] = self.extract(reply)
            except InputError as error:
                yield index, unrun("format", error.allowed)
        places = list(codes)
        with contextlib.closing(self.run_each(list(codes.values()))) as ended:
            for at, outcome in ended:
                yield places[at], outcome

    def run(self, codes: Sequence[str], *, split: Split = "reward") -> list[Outcome]:
        """Run codes as they are; `report` is for the end, once."""
        return collect(self.run_each(codes, split))

    def run_each(self, codes: Sequence[str], split: Split = "reward") -> Outcomes:
        """The same; (index, outcome) as each ends."""
        with contextlib.closing(self.executor.stream([self.job(code, split) for code in codes])) as ended:
            for place, result in ended:
                yield place, self.judge(codes[place], result, split)
