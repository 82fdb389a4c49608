"""Jobs that are not all known yet: a queue that an executor takes from whenever it has room."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from rewardrate.sandbox.job import Job
from rewardrate.sandbox.stop import Stopped


class OpenJobs:
    """A queue of jobs from which an executor takes the next one whenever it has room; numbered as they are put in.

    It is open until `end` (no more jobs; those that are there are run) or `cancel` (nothing more is run; what runs is
    ended). All methods may be called from any thread.
    """

    def __init__(self, jobs: Iterable[Job] = ()) -> None:
        self._waiting = deque(enumerate(jobs))
        self._count = len(self._waiting)
        self._changed = threading.Condition()
        self._ended = self._cancelled = False
        self._on_cancel: Callable[[], None] | None = None
        self._running: set[int] = set()
        self._most = 0
        self._busy, self._since = 0.0, time.monotonic()

    @property
    def over(self) -> bool:
        """Whether no job will be taken any more."""
        with self._changed:
            return self._cancelled or (self._ended and not self._waiting)

    def put(self, job: Job) -> int:
        """Add a job; returns its number. Refused after `end`."""
        with self._changed:
            if self._ended:
                raise Stopped
            number, self._count = self._count, self._count + 1
            self._waiting.append((number, job))
            self._changed.notify()
            return number

    def take(self, *, wait: bool = True, runs: bool = True) -> tuple[int, Job] | None:
        """The next job and its number; None where there will be none (without `wait`: where there is none now).

        Without `runs` it has no place yet: `began` says when it has.
        """
        with self._changed:
            while not self._waiting and not self._ended and wait:
                self._changed.wait()
            if not self._waiting:
                return None
            number, job = self._waiting.popleft()
            if runs:
                self._begin(number)
            return number, job

    def began(self, number: int) -> None:
        """A job that was taken runs from now on. Said again, it is nothing."""
        with self._changed:
            self._begin(number)

    def _begin(self, number: int) -> None:
        self._account()
        self._running.add(number)
        self._most = max(self._most, len(self._running))

    def done(self, number: int) -> None:
        """A job that was taken has its result; who runs it says so before taking another. Said again, it is nothing."""
        with self._changed:
            self._account()
            self._running.discard(number)

    def usage(self) -> tuple[float, int]:
        """Seconds that jobs have been running for, added up, and how many ran at once at most."""
        with self._changed:
            self._account()
            return self._busy, self._most

    def _account(self) -> None:
        now = time.monotonic()
        self._busy, self._since = self._busy + len(self._running) * (now - self._since), now

    def first(self) -> Job | None:
        """The next job, left where it is; waits for it. None where there will be none."""
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            return self._waiting[0][1] if self._waiting else None

    def end(self) -> None:
        """No more jobs will be put in."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Run nothing more, and end what runs."""
        with self._changed:
            self._ended = self._cancelled = True
            self._waiting.clear()
            self._changed.notify_all()
            tell = self._on_cancel
        if tell is not None:
            tell()

    def when_cancelled(self, tell: Callable[[], None]) -> None:
        """What an executor wants to be called when the jobs are cancelled; at once if they are already."""
        with self._changed:
            self._on_cancel, late = tell, self._cancelled
        if late:
            tell()
