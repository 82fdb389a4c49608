"""Jobs over the machines of a Ray cluster: the same protocol as `sandbox.Pool`, and each attempt counts once."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate import __version__
from rewardrate.checks import finite
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.sandbox import Executor, Job
from rewardrate.sandbox.job import check_clock
from rewardrate.sandbox.launch import WARM_IMPORTS, check_imports
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.pool import Results
from rewardrate.sandbox.result import Clock
from rewardrate.scale import shipping
from rewardrate.scale.connection import connect
from rewardrate.scale.dispatch import Member, Work
from rewardrate.scale.node import Homes, Node, script_packages

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
FAILURES = 3  # to get ready, until a node is left alone


class RayExecutor(Executor):
    """Runs jobs on every machine of a Ray cluster, as many at once as their CPUs allow, priced by one clock.

    `address`: of a running cluster ("auto" finds the one on this machine); empty: the one this process is connected to,
    RAY_ADDRESS, or a cluster of our own on this machine. `slots`: scripts at once on each node, whatever they need; as
    many as its CPUs allow unless given. The CPUs are reserved, so that Ray gives them to nobody else, and on its
    machine every script owns its cores (sandbox.cores).

    A node that is lost takes its running attempts with it: each is run again elsewhere, `retries` times, and then is a
    "sandbox-failure", which is not charged. A node that joins is used from then on. `patience_seconds`: how
    long to wait while no node is there; then InfrastructureError.
    """

    local, open_ended = False, True

    def __init__(
        self,
        address: str = "",
        *,
        slots: int | None = None,
        clock: Clock = "wall",
        repeats: int = 1,
        retries: int = 1,
        warm_imports: Sequence[str] = WARM_IMPORTS,
        patience_seconds: float = 120.0,
    ) -> None:
        check_clock(clock)
        check_imports(warm_imports)
        for name, value, least in (("slots", slots, 1), ("repeats", repeats, 0), ("retries", retries, 0)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(name, value, f"it must be a whole number of at least {least}")
        if not isinstance(address, str):
            raise InputError("address", address, 'it must be text: host:port, or "auto"')
        self.slots, self.clock, self.retries = slots, clock, retries
        self.patience_seconds = finite(
            "patience_seconds", patience_seconds, lambda number: number > 0, "be finite and positive"
        )
        self.faults = 0
        "Attempts that were lost with their node, or whose box failed, and were run again."
        self._settings: dict[str, Any] = {"clock": clock, "repeats": repeats, "warm_imports": tuple(warm_imports)}
        self._ray, self._ours = connect(address)
        self._members: dict[str, Member] = {}
        self._left_out: dict[str, int] = {}
        "Node -> from how many cores a job on it cannot be had; 0: never."
        self._failures: dict[str, int] = {}
        self._lost: set[str] = set()
        "Nodes whose loss was said."
        self._hosts: dict[str, str] = {}
        "Node -> address of its machine."
        self._digests: dict[str, tuple[object, str]] = {}
        self._looked = 0.0
        self._largest = 0
        "CPUs of the largest node there ever was."

    def close(self) -> None:
        """End what we started on the nodes; a cluster of our own ends too."""
        for member in self._members.values():
            member.end(gently=True)
        self._members.clear()
        if self._ours:
            self._ray.shutdown()
            self._ours = False

    def stream(self, jobs: Sequence[Job] | OpenJobs) -> Results:
        """(index, result) as each job ends, every index once.

        Closing the iterator, or an exception here or on a node, ends all boxes at once.
        """
        if isinstance(jobs, OpenJobs):
            return self._open(jobs)
        priced = [self._priced(job) for job in jobs]
        ended = OpenJobs(priced)
        ended.end()
        return self._results(ended, priced)

    def _open(self, jobs: OpenJobs) -> Results:
        """Jobs that come one by one: all need the cores and the data of the first, as one environment's do."""
        first = jobs.first()
        return self._results(jobs, [] if first is None else [self._priced(first)])

    def _results(self, jobs: OpenJobs, priced: Sequence[Job]) -> Results:
        """The results of `jobs`; `priced` are those that say which cores and data are needed."""
        if not priced:
            return
        data = {path: self._digest(Path(path)) for path in {str(path) for job in priced for path in job.data.values()}}
        self._looked = 0.0
        need = max(job.limits.cores for job in priced)
        runs = 1 + self._settings["repeats"]
        work = Work(
            jobs=jobs,
            data=data,
            nodes=lambda: self._nodes(need, data),
            retries=self.retries,
            patience_seconds=self.patience_seconds,
            runs=runs,
        )
        try:
            with contextlib.closing(work.results()) as ended:
                yield from ended
        finally:
            self.faults += work.faults
            for member in self._members.values():
                self._report_lost(member)

    def _priced(self, job: Job) -> Job:
        if not isinstance(job, Job):
            raise InputError("jobs", job, "it must be a list of jobs", "make them with Job(script, limits, ...)")
        if job.clock not in (None, self.clock):
            remedy = "leave the job's out, or make an executor with it"
            raise InputError("job.clock", job.clock, f"this executor prices every job by {self.clock}", remedy)
        return dataclasses.replace(job, clock=self.clock)

    def _digest(self, path: Path) -> str:
        """The name under which these data are kept on the nodes; read again only when something has changed."""
        stamp = shipping.signature(path)
        known = self._digests.get(str(path))
        if known is None or known[0] != stamp:
            self._digests[str(path)] = known = (stamp, shipping.digest(path))
        return known[1]

    def _nodes(self, need: int, data: Mapping[str, str]) -> list[Member]:
        """The nodes that can take jobs now. Looks round once a second: new ones are made ready, dead ones dropped."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                alive = {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}
            except self._ray.exceptions.RayError as error:
                why = " ".join(str(error).split())[:300]
                raise InfrastructureError(f"the Ray cluster does not answer: {why}") from error
            cpus = {name: int(node["Resources"].get("CPU", 0)) for name, node in alive.items()}
            self._hosts |= {name: node["NodeManagerAddress"] for name, node in alive.items()}
            for name in list(self._members):
                member = self._members[name]
                if name not in alive:
                    member.lost = member.lost or "it has left the cluster"
                if member.gone or member.lost or self._outgrown(member, cpus[name], need):
                    self._report_lost(self._members.pop(name))
                    member.end()
            self._add_nodes(cpus, need)
            for member in self._members.values():
                self._prepare(member, need, data)
        return [member for member in self._members.values() if member.ready and not member.gone]

    def _slots(self, cpus: int, need: int) -> int:
        """Scripts of `need` cores at once on a node of `cpus`."""
        return cpus // need if self.slots is None else min(cpus // need, self.slots)

    def _outgrown(self, member: Member, cpus: int, need: int) -> bool:
        """Whether an idle node must be asked for more CPUs than it was when jobs needed fewer."""
        small = member.cpus < need or member.reserved < self._slots(cpus, need) * need
        return member.ready and not member.used and small

    def _add_nodes(self, cpus: Mapping[str, int], need: int) -> None:
        """Start our part on nodes that are new, with the CPUs that their slots need."""
        self._largest = max(self._largest, *cpus.values(), 0)
        if 0 < self._largest < need:  # a larger one that was lost, or none so far, is waited for
            rule = f"the largest node of the cluster has {self._largest} CPUs"
            raise InputError("cores", need, rule, "set environment.cores lower, or add a larger node")
        for name in cpus.keys() - self._members.keys():
            slots = self._slots(cpus[name], need)
            if not slots or need >= self._left_out.get(name, need + 1):
                continue
            place = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(name, soft=False)
            taken = slots * need
            options = {"num_cpus": taken, "max_concurrency": taken + 2, "max_restarts": 0, "max_task_retries": 0}
            actor = self._ray.remote(Node).options(scheduling_strategy=place, **options)
            made = actor.remote(self._settings, Homes.here())
            self._members[name] = Member(self._ray, name, taken, made, self.slots)

    def _prepare(self, member: Member, need: int, data: Mapping[str, str]) -> None:
        """Make a node ready in a thread of its own: check it, and send it the data that it lacks."""
        missing = {name: path for path, name in data.items() if name not in member.holds}
        if member.busy or (member.ready and not missing):
            return
        member.ready, member.busy = False, True

        def prepare() -> None:
            try:
                self._check_node(member, need)
                for name, path in missing.items():
                    for chunk in shipping.pieces(Path(path)):
                        self._ray.get(member.actor.put.remote(name, chunk))
                    self._ray.get(member.actor.complete.remote(name))
                    member.holds.add(name)
                member.ready = not member.gone
            except Exception as error:  # a node that cannot be made ready is a lost one, whatever the reason
                self._fails(member, error)
            finally:
                member.busy = False

        threading.Thread(target=prepare, name=f"prepare-{member.name[:12]}", daemon=True).start()

    def _check_node(self, member: Member, need: int) -> None:
        about = self._ray.get(member.actor.about.remote())
        if about.version != __version__:
            self._left_out[member.name] = 0
            raise InfrastructureError(f"it has rewardrate {about.version}, and this is {__version__}")
        ours = script_packages()
        lacks = sorted(ours.keys() - about.packages.keys())
        if lacks:  # its scripts would fail, and the policy would be charged for it
            self._left_out[member.name] = 0
            raise InfrastructureError(f"scripts there have no {', '.join(lacks)}; pip install 'rewardrate[agent,ray]'")
        others = [f"{name} {about.packages[name]}" for name, version in ours.items() if about.packages[name] != version]
        if others:
            log.warning("node %s has other versions than this machine: %s", member.name[:12], ", ".join(others))
        member.cpus = min(member.cpus, about.cores)
        if member.cpus < need:
            self._left_out[member.name] = need
            raise InfrastructureError(f"it has {about.cores} cores, and a script needs {need}")

    def _fails(self, member: Member, error: Exception) -> None:
        """A node that could not be made ready is tried again, twice."""
        member.gone = True
        self._failures[member.name] = self._failures.get(member.name, 0) + 1
        if self._failures[member.name] >= FAILURES:
            self._left_out[member.name] = 0
        self._event("node-unusable", member, f"cannot be used: {' '.join(str(error).split())[:300]}")

    def _report_lost(self, member: Member) -> None:
        """Say once that a node is lost, why, and how many attempts it took with it.

        Ray may call a dead node alive for some seconds more: it is made ready again in vain, and lost with nothing.
        """
        taken = member.dropped + member.running
        if member.lost and not member.reported and (taken or member.name not in self._lost):
            member.reported = True
            self._lost.add(member.name)
            self._event("node-lost", member, f"is lost ({member.lost}); attempts that it was running: {taken}")

    def _event(self, kind: str, member: Member, what: str) -> None:
        message = f"node {member.name[:12]} at {self._hosts.get(member.name, '?')} {what}"
        log.warning("%s", message)
        if self.on_event is not None:
            self.on_event(kind, message)
