"""A queue of jobs over slots of cores: in order, never oversubscribed, repeated when something else disturbed them."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Self

from rewardrate.errors import InputError
from rewardrate.sandbox import cores, residency
from rewardrate.sandbox.job import Job, check_clock
from rewardrate.sandbox.launch import SHARED, WARM_IMPORTS, Launchers, check_imports
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.result import Clock, Result
from rewardrate.sandbox.runner import check, choose, failure, run_job
from rewardrate.sandbox.stop import Stop, Stopped

log = logging.getLogger(__name__)


Results = Generator[tuple[int, Result], None, None]
"(index, result) as each job ends."


class Executor(ABC):
    """Whatever runs jobs: a pool here, or one over many machines. Only `stream` must be written, as a generator."""

    local: bool = True
    "Whether jobs run on this machine, so that its GPUs and memory say something about them."
    open_ended: bool = False
    'Whether `stream` also takes `OpenJobs`, of which more come while it runs: what schedule = "stream" needs.'
    on_event: Callable[[str, str], None] | None = None
    "Called with kind and message when something worth a note happens (a node is lost); from any thread."

    @abstractmethod
    def stream(self, jobs: Sequence[Job] | OpenJobs) -> Results:
        """Run the jobs; (index, result) as each ends, every index once. Closing the iterator ends what still runs.

        `OpenJobs` come only to an executor that says `open_ended`: take one whenever there is room, until `over`.
        """

    def run(self, jobs: Sequence[Job], *, on_done: Callable[[int, Result], None] | None = None) -> list[Result]:
        """Run the jobs; results in their order. `on_done(index, result)` in the caller's thread as each ends."""
        results: dict[int, Result] = {}
        with contextlib.closing(self.stream(jobs)) as ended:
            for index, result in ended:
                results[index] = result
                if on_done is not None:
                    on_done(index, result)
        return [results[index] for index in range(len(jobs))]

    def close(self) -> None:  # noqa: B027, not every executor has something to end
        """End what was started for the jobs. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool(Executor):
    """Runs jobs on this machine, `slots` at a time, priced by one clock.

    `slots` None: as many as the cores allow, and never more than that (cores / cores per job). `repeats`: how many
    times more a contaminated measurement is tried; the least contaminated run, then the fastest, is kept, and
    `Result.runs` says how many there were. With the warm clock one server imports `warm_imports` once, and each script
    starts as a fork of it.
    """

    open_ended = True

    def __init__(
        self,
        slots: int | None = None,
        *,
        clock: Clock = "wall",
        repeats: int = 1,
        warm_imports: Sequence[str] = WARM_IMPORTS,
    ) -> None:
        check_clock(clock)
        for name, value, least in (("slots", slots, 1), ("repeats", repeats, 0)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(name, value, f"it must be a whole number of at least {least}")
        check_imports(warm_imports)
        self.slots, self.clock, self.repeats = slots, clock, repeats
        self.warm_imports = tuple(warm_imports)
        self._warm = Launchers()

    def close(self) -> None:
        """End the warm servers, if there are any."""
        self._warm.close()

    @property
    def skipped(self) -> tuple[str, ...]:
        """Warm imports that are not installed, so that scripts pay for them themselves; known after the first run."""
        return self._warm.skipped()

    def stream(self, jobs: Sequence[Job] | OpenJobs) -> Results:
        """(index, result) as each job ends. A job that cannot be run is refused before any is started.

        Closing the iterator, an exception in here, or an interrupt ends all boxes at once; they are gone when it
        returns. A job that our side fails at is a "sandbox-failure", and the others continue.
        """
        if isinstance(jobs, OpenJobs):
            return self._open(jobs)
        priced = [self._priced(job) for job in jobs]
        for job in priced:
            check(job)
        ended = OpenJobs(priced)
        ended.end()
        most = self._most(min((job.limits.cores for job in priced), default=1))
        return _Work(ended, min(most, len(priced)), self._measure).results()

    def _open(self, jobs: OpenJobs) -> Results:
        """Jobs that come one by one; as many slots as the first one's cores allow."""
        first = jobs.first()
        if first is not None:
            check(self._priced(first))
            work = _Work(
                jobs, self._most(first.limits.cores), lambda job, *more: self._measure(self._priced(job), *more)
            )
            with contextlib.closing(work.results()) as ended:
                yield from ended

    def _most(self, need: int) -> int:
        """Slots for jobs of so many cores."""
        most = max(1, len(cores.usable()) // need)
        return min(self.slots or most, most)

    def _priced(self, job: Job) -> Job:
        if not isinstance(job, Job):
            raise InputError("jobs", job, "it must be a list of jobs", "make them with Job(script, limits, ...)")
        if job.clock not in (None, self.clock):
            remedy = "leave the job's out, or make a pool with it"
            raise InputError("job.clock", job.clock, f"this pool prices every job by {self.clock}", remedy)
        return dataclasses.replace(job, clock=self.clock)

    def _measure(self, job: Job, stop: Stop, turn: threading.Lock) -> Result:
        launchers = self._warm if self.clock == "warm" else SHARED
        level = choose(job.level, job.minimum)
        if level.can.seccomp:
            residency.preload_flags(job)
        found: list[Result] = []
        while not found or (found[-1].contaminated and len(found) <= self.repeats):
            try:
                found.append(run_job(job, launchers=launchers, imports=self.warm_imports, stop=stop, turn=turn))
            except (Stopped, InputError):
                raise
            except Exception as error:  # ours, and of this job alone: the others continue
                log.exception("a job could not be run")
                found.append(failure(job, level, f"{type(error).__name__}: {error}"))
        return dataclasses.replace(min(found, key=_quality), runs=len(found))


def _quality(result: Result) -> tuple[bool, float, float]:
    return result.status == "sandbox-failure", result.contamination, result.priced_seconds


class _Work:
    """One call of `Pool.stream`: threads that take jobs from the front and hand results to the caller's thread."""

    def __init__(self, jobs: OpenJobs, slots: int, measure: Callable[[Job, Stop, threading.Lock], Result]) -> None:
        self._jobs, self._measure = jobs, measure
        self._turn, self._stop = threading.Lock(), Stop()
        self._done: queue.SimpleQueue[tuple[int, Result | BaseException] | None] = queue.SimpleQueue()
        "Results, and None for each thread that has ended."
        self._threads = [threading.Thread(target=self._slot, name=f"slot-{n}", daemon=True) for n in range(slots)]

    def results(self) -> Results:
        try:
            self._jobs.when_cancelled(self._stop.set)
            for thread in self._threads:
                thread.start()
            ended = 0
            while ended < len(self._threads):
                found = self._done.get()
                if found is None:
                    ended += 1
                    continue
                index, result = found
                if isinstance(result, BaseException):
                    raise result
                yield index, result
        finally:
            self._end()

    def _end(self) -> None:
        """Nothing is left when this returns, however impatient the user is."""
        self._jobs.cancel()
        interrupted: KeyboardInterrupt | None = None
        for thread in self._threads:
            while thread.is_alive():
                try:
                    thread.join()
                except KeyboardInterrupt as again:
                    interrupted = again
        self._stop.close()
        if interrupted is not None:
            raise interrupted

    def _slot(self) -> None:
        try:
            while (taken := self._jobs.take()) is not None:
                index, job = taken
                try:
                    result = self._measure(job, self._stop, self._turn)
                    self._jobs.done(index)  # before another is taken: so many run at once, and no more
                    self._done.put((index, result))
                except Stopped:
                    return
                except BaseException as error:
                    self._done.put((index, error))
                    return
        finally:
            self._done.put(None)
