"""One open stream of an executor for callers in many threads, each of whom has a few jobs at a time."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Sequence

from rewardrate.errors import InputError
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.pool import Executor, Results
from rewardrate.sandbox.result import Result
from rewardrate.sandbox.stop import Stopped


class SharedExecutor(Executor):
    """One stream of an executor for callers in many threads: each gets the results of its own jobs.

    `close` ends what still runs, and whoever waits for a result gets `Stopped`; the executor itself stays open.
    """

    def __init__(self, executor: Executor) -> None:
        if not executor.open_ended:
            rule = f"{type(executor).__name__} takes all jobs at once, and no more while they run"
            raise InputError("sandbox.executor", type(executor).__name__, rule, 'use schedule = "step"')
        self._executor, self.local = executor, executor.local  # its events are its own
        self._jobs = OpenJobs()
        self._callers: dict[int, tuple[int, queue.SimpleQueue[tuple[int, Result] | BaseException]]] = {}
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def usage(self) -> tuple[float, int]:
        """Seconds that jobs have been running for, added up, and how many ran at once at most."""
        return self._jobs.usage()

    def stream(self, jobs: Sequence[Job] | OpenJobs) -> Results:
        """(index, result) as each job of this caller ends."""
        if isinstance(jobs, OpenJobs):
            raise InputError("jobs", jobs, "this executor is one open stream already", "give a list of jobs")
        return self._stream(jobs)

    def _stream(self, jobs: Sequence[Job]) -> Results:
        mine: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            for index, job in enumerate(jobs):
                self._callers[self._jobs.put(job)] = (index, mine)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="shared-executor", daemon=True)
                self._thread.start()
        for _ in jobs:
            found = mine.get()
            if isinstance(found, BaseException):
                raise found
            yield found

    def close(self) -> None:
        """End what still runs. A second call does nothing."""
        self._jobs.cancel()
        if self._thread is not None:
            self._thread.join()
        self._fail(Stopped())

    def _serve(self) -> None:
        try:
            with contextlib.closing(self._executor.stream(self._jobs)) as ended:
                for number, result in ended:
                    self._jobs.done(number)
                    with self._lock:
                        index, caller = self._callers.pop(number)
                    caller.put((index, result))
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
            callers = [caller for _, caller in self._callers.values()]
            self._callers.clear()
        for caller in callers:
            caller.put(error)
