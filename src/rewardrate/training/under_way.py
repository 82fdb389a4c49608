"""Attempts under way: each is executed in a thread of its own, and its outcome is on record as soon as it is there."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rewardrate.attempt import Outcome, Parent
from rewardrate.environments.environment import Environment
from rewardrate.errors import InputError

Ended = tuple[int, Outcome]
"Number of an attempt, and its outcome."


class UnderWay:
    """What runs of one environment, whose `stream` is called from many threads.

    `record(attempt, arrival, outcome)` is called as each ends, one at a time, in the order that `arrived` gives them;
    `arrival` counts from `before` + 1. On leaving the block whatever still runs is left to its executor to end, and
    nothing more is recorded.
    """

    def __init__(
        self, environment: Environment, record: Callable[[int, int, Outcome], None], *, before: int = 0
    ) -> None:
        self._environment, self._record, self._arrivals = environment, record, before
        self._found: queue.SimpleQueue[Ended | BaseException] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False

    def start(self, attempt: int, reply: str, parent: Parent | None, charged: Callable[[Outcome], Outcome]) -> None:
        """Execute a reply; `charged` adds its overhead to what comes of it."""
        work = threading.Thread(
            target=self._execute, args=(attempt, reply, parent, charged), name=f"attempt-{attempt}", daemon=True
        )
        work.start()

    def arrived(self) -> list[Ended]:
        """The next attempts to end, in the order in which they did; waits for one."""
        found = [self._next()]
        while not self._found.empty():
            found.append(self._next())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._over = True

    def _next(self) -> Ended:
        found = self._found.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _execute(self, attempt: int, reply: str, parent: Parent | None, charged: Callable[[Outcome], Outcome]) -> None:
        try:
            with contextlib.closing(self._environment.stream([reply], [parent])) as ended:
                outcomes = [outcome for _, outcome in ended]
            if len(outcomes) != 1:
                rule = f"its stream ended with {len(outcomes)} outcomes for one reply"
                raise InputError("environment", attempt, rule, "rewardrate environment check finds such faults")
            with self._lock:
                if self._over:
                    return
                outcome, self._arrivals = charged(outcomes[0]), self._arrivals + 1
                self._record(attempt, self._arrivals, outcome)
                self._found.put((attempt, outcome))
        except BaseException as error:  # ours: it is raised where the run waits
            self._found.put(error)
