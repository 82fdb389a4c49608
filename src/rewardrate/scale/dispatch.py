"""One call of the executor: who runs what, what was lost, and that every job has exactly one result."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rewardrate.errors import InfrastructureError
from rewardrate.sandbox import Job, Result
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.pool import Results

WAIT_SECONDS, OPEN_SECONDS = 0.2, 0.02
GRACE_SECONDS = 300.0  # beyond twice everything a job may take, a node that says nothing is given up
BROKEN_BOXES = 3  # in a row: such a node would swallow the queue


class Member:
    """One node of the cluster, as the driver sees it."""

    def __init__(self, ray: Any, name: str, cpus: int, actor: Any, slots: int | None = None) -> None:
        self.ray, self.name, self.cpus, self.actor = ray, name, cpus, actor
        self.reserved = cpus
        "CPUs that Ray keeps for us; `cpus` are those that scripts may have, which can be fewer."
        self.slots = slots
        "Scripts at once, whatever they need; None: as many as the CPUs allow."
        self.holds: set[str] = set()
        "Digests of the data that it has."
        self.ready = self.busy = self.gone = False
        self.used = self.running = 0
        "CPUs of the jobs that it runs, and how many those are."
        self.broken = 0
        "Boxes that failed in a row."
        self.lost, self.reported = "", False
        "Why the node is lost, and whether that was said."
        self.dropped = 0
        "Attempts that it was running when it was lost."

    def room(self, need: int) -> int:
        """How many more jobs of `need` CPUs it can take now."""
        by_cpus = (self.cpus - self.used) // need
        return by_cpus if self.slots is None else min(by_cpus, self.slots - self.running)

    def take(self, need: int) -> None:
        """A job of `need` CPUs begins on it."""
        self.used, self.running = self.used + need, self.running + 1

    def give_back(self, need: int) -> None:
        """That job is over."""
        self.used, self.running = self.used - need, self.running - 1

    def end(self, *, gently: bool = False) -> None:
        """End our part on the node, and with it every box there."""
        self.gone = True
        with contextlib.suppress(Exception):
            if gently:
                self.ray.get(self.actor.close.remote(), timeout=5)
        with contextlib.suppress(Exception):
            self.ray.kill(self.actor)


@dataclass(frozen=True)
class Running:
    """A job that a node has."""

    index: int
    member: Member
    deadline: float


class Work:
    """Jobs from the front to the nodes, results to the caller's thread.

    A job is in one place at a time: waiting, running on one node, or done. It goes back to the front when its node is
    lost. A result that arrives after that is ignored.
    """

    def __init__(
        self,
        jobs: OpenJobs,
        data: Mapping[str, str],
        nodes: Callable[[], list[Member]],
        retries: int,
        patience_seconds: float,
        runs: int = 2,
    ) -> None:
        self._supply, self._data, self._nodes = jobs, data, nodes
        self._jobs: dict[int, Job] = {}
        "Those that wait here or run, by number."
        self._retries, self._patience = retries, patience_seconds
        self._runs = runs
        "How often a node may run one job: again when the measurement was contaminated."
        self._waiting: deque[int] = deque()
        self._running: dict[Any, Running] = {}
        self._lost: dict[int, list[str]] = {}
        "Index -> names of the nodes that did not give a result."
        self._done: queue.SimpleQueue[tuple[int, Result] | BaseException | None] = queue.SimpleQueue()
        "Results; None when there will be no more."
        self._stop = threading.Event()
        self.faults = 0

    def results(self) -> Results:
        """(index, result) as each ends, every index once."""
        seen: set[int] = set()
        thread = threading.Thread(target=self._dispatch, name="dispatch", daemon=True)
        self._supply.when_cancelled(self._stop.set)
        thread.start()
        try:
            while (found := self._done.get()) is not None:
                if isinstance(found, BaseException):
                    raise found
                if found[0] in seen:
                    raise AssertionError(f"job {found[0]} has two results")
                seen.add(found[0])
                yield found
        finally:
            self._end(thread)

    def _end(self, thread: threading.Thread) -> None:
        """Stop what still runs, even if the user interrupts again."""
        self._supply.cancel()
        interrupted: KeyboardInterrupt | None = None
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as again:
                interrupted = again
        for member in {running.member.name: running.member for running in self._running.values()}.values():
            member.end()
        if interrupted is not None:
            raise interrupted

    def _dispatch(self) -> None:
        try:
            alone_since = time.monotonic()
            while (self._waiting or self._running or not self._supply.over) and not self._stop.is_set():
                members = self._nodes()
                alone_since = time.monotonic() if members or self._running else alone_since
                if time.monotonic() - alone_since > self._patience:
                    rule = f"no node of the Ray cluster was ready within {self._patience:g} s"
                    why = "none is alive, other work holds their CPUs, or each was left out (see the warnings)"
                    raise InfrastructureError(f"{rule}: {why}; the same command resumes from here")
                self._fill(members)
                self._collect()
                self._give_up()
        except BaseException as error:
            rays = type(error).__module__.startswith("ray.")
            why = " ".join(str(error).split())[:300]
            failure = (
                InfrastructureError(f"the Ray cluster failed ({why}); the same command resumes") if rays else error
            )
            self._done.put(failure)
        finally:
            self._done.put(None)

    def _fill(self, members: list[Member]) -> None:
        """Give jobs to nodes with free CPUs, unless results pile up because the caller is slower."""
        while (index := self._next()) is not None:
            need = self._jobs[index].limits.cores
            slots = sum(min(member.cpus // need, member.slots or member.cpus) for member in members)
            if self._done.qsize() >= 4 * slots:
                return
            member = self._place(index, members)
            if member is None:
                return
            self._waiting.popleft()
            self._supply.began(index)
            job = self._jobs[index]
            bare = Job(**{**job.__dict__, "data": {}})  # paths of this machine mean nothing on another
            names = {name: self._data[str(path)] for name, path in job.data.items()}
            patience = 2 * self._runs * job.limits.seconds + GRACE_SECONDS
            future = member.actor.run.remote(bare, names)
            self._running[future] = Running(index, member, time.monotonic() + patience)
            member.take(job.limits.cores)

    def _next(self) -> int | None:
        """The job at the front, taken from the supply where none waits here; None where there is none now."""
        if not self._waiting and (taken := self._supply.take(wait=False, runs=False)) is not None:
            self._jobs[taken[0]] = taken[1]
            self._waiting.append(taken[0])
        return self._waiting[0] if self._waiting else None

    def _place(self, index: int, members: list[Member]) -> Member | None:
        """The node with most room: rather one whose boxes work, and not the one that lost this job before."""
        need = self._jobs[index].limits.cores
        room = [one for one in members if not one.gone and one.room(need) > 0]

        def suitability(one: Member) -> tuple[bool, int]:
            return one.name not in self._lost.get(index, ()), one.cpus - one.used

        sound = [one for one in room if one.broken < BROKEN_BOXES]
        if not sound and any(one.broken < BROKEN_BOXES for one in members):
            return None  # better wait for a sound one
        return max(sound or room, key=suitability, default=None)

    def _collect(self) -> None:
        wait = WAIT_SECONDS if self._supply.over else OPEN_SECONDS  # more jobs may come at any moment
        if not self._running:
            self._stop.wait(wait)
            return
        ray = next(iter(self._running.values())).member.ray
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=wait)
        for future in ready:
            running = self._running.pop(future)
            running.member.give_back(self._jobs[running.index].limits.cores)
            try:
                result = ray.get(future)
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:  # the node, its worker or the object is gone
                self._mark_lost(running, type(error).__name__)
                self._retry(running, f"the node that ran it was lost ({type(error).__name__})", None)
            else:
                self._accept(running, result)

    def _accept(self, running: Running, result: Result) -> None:
        failed = result.status == "sandbox-failure"
        running.member.broken = running.member.broken + 1 if failed else 0
        if failed:
            self._retry(running, result.message, result)
        else:
            self._finish(running.index, result)

    def _finish(self, index: int, result: Result) -> None:
        self._supply.done(index)  # before its place is given to another, whenever the result is fetched
        del self._jobs[index]
        self._lost.pop(index, None)
        self._done.put((index, result))

    def _retry(self, running: Running, why: str, result: Result | None) -> None:
        """To the front of the queue, or a sandbox failure (not charged) when it was tried often enough."""
        before = self._lost.setdefault(running.index, [])
        before.append(running.member.name)
        if len(before) <= self._retries:
            self.faults += 1
            self._supply.done(running.index)
            self._waiting.appendleft(running.index)
            return
        failure = Result.failure(why, self._jobs[running.index].clock or "wall")
        self._finish(running.index, result or failure)

    def _give_up(self) -> None:
        """Nodes that have said nothing for far too long are lost nodes."""
        now = time.monotonic()
        for future in [future for future, running in self._running.items() if running.deadline < now]:
            running = self._running.pop(future)
            running.member.give_back(self._jobs[running.index].limits.cores)
            self._mark_lost(running, "it stopped responding")
            running.member.end()
            self._retry(running, "the node that ran it stopped responding", None)

    @staticmethod
    def _mark_lost(running: Running, why: str) -> None:
        member = running.member
        member.gone, member.lost, member.dropped = True, member.lost or why, member.dropped + 1
