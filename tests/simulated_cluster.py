"""A cluster on a simulated clock: both schedules play the same attempts, with the real loops, rate and run log."""

import heapq
import math
import os
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from rewardrate.attempt import Outcome, Proposal
from rewardrate.environments import Environment
from rewardrate.rates import NIW, Accumulators, Stream
from rewardrate.runlog import RunLog
from rewardrate.training.buffer import SolutionBuffer
from rewardrate.training.loop import Budget, Loop
from rewardrate.training.objective import Objective
from rewardrate.training.pricer import Pricer
from rewardrate.training.stream import StreamLoop
from rewardrate.training.under_way import UnderWay

MEMORY = Path("/dev/shm")
"Where run folders are written if it is there: syncing to a disk is no part of what is simulated."


@dataclass
class Cluster:
    """Slots of a simulated machine, first come first served, and its clock."""

    slots: int
    now: float = 0.0
    _free: list[float] = field(default_factory=list)
    ran: list[tuple[float, float]] = field(default_factory=list)
    "Begin and end of every attempt so far."

    def run(self, seconds: float) -> float:
        """When an attempt that is handed in now will end."""
        if not self._free:
            self._free = [0.0] * self.slots
        begin = max(self.now, heapq.heappop(self._free))
        heapq.heappush(self._free, begin + seconds)
        self.ran.append((begin, begin + seconds))
        return begin + seconds

    def busy(self) -> float:
        """Share of the slots' time so far in which an attempt ran."""
        used = sum(min(end, self.now) - min(begin, self.now) for begin, end in self.ran)
        return used / (self.slots * self.now)


class OnCluster(Environment):
    """An environment whose attempts take their seconds on a cluster's clock; a batch is waited for."""

    def __init__(self, inner: Environment, cluster: Cluster) -> None:
        self.inner, self.cluster, self.limit_seconds = inner, cluster, inner.limit_seconds

    def prompt(self, parent=None):
        return self.inner.prompt(parent)

    def stream(self, replies, parents=None):
        outcomes = self.inner.execute(replies, parents)
        ends = [(self.cluster.run(outcome.seconds), place) for place, outcome in enumerate(outcomes)]
        for end, place in sorted(ends):
            self.cluster.now = max(self.cluster.now, end)
            yield place, outcomes[place]


class InSlots(UnderWay):
    """Attempts under way on a cluster: they end when its clock says so, also while the policy is at work."""

    def __init__(self, environment, record, *, before=0):
        super().__init__(environment, record, before=before)
        self.environment, self.cluster = environment.inner, environment.cluster
        self.running, self.arrivals, self.record = [], before, record

    def start(self, attempt, reply, parent, charged):
        (outcome,) = self.environment.execute([reply], [parent])
        heapq.heappush(self.running, (self.cluster.run(outcome.seconds), attempt, charged(outcome)))

    def arrived(self):
        self.cluster.now = max(self.cluster.now, self.running[0][0])
        found = []
        while self.running and self.running[0][0] <= self.cluster.now:
            _, attempt, outcome = heapq.heappop(self.running)
            self.arrivals += 1
            self.record(attempt, self.arrivals, outcome)
            found.append((attempt, outcome))
        return found


class Attempts(Environment):
    """A reply is an attempt's seconds; its reward is their logarithm, so that slow ones are worth something too."""

    limit_seconds = 1e9

    def prompt(self, parent=None):
        return [{"role": "user", "content": "go"}]

    def stream(self, replies, parents=None):
        for place, reply in enumerate(replies):
            reward = math.log1p(float(reply))
            yield place, Outcome(True, reward, reward, float(reply), "", "ok", reply)


class Written:
    """A policy that does not learn: proposal i is the i-th of a fixed list, however many are asked for at once."""

    name, trainable = "written", False

    def __init__(self, seconds, cluster: Cluster, write: float, learn: float) -> None:
        self.left, self.cluster, self.costs = deque(seconds), cluster, (write, learn)

    def propose(self, prompts, seed, first=0):
        self.cluster.now += self.costs[0]
        return [Proposal(repr(float(self.left.popleft()))) for _ in prompts]

    def learn(self, proposals, rewards):
        self.cluster.now += self.costs[1]
        return {}

    def count(self, text):
        return len(text)

    def save(self, folder):
        pass

    def load(self, folder):
        pass


@dataclass(frozen=True)
class Played:
    """What one schedule came to."""

    seconds: float
    busy: float
    ages: tuple[int, ...]
    times: tuple[float, ...]
    "When each update was done."
    own: float
    "Seconds of this machine for an attempt: loop, rate and record."


def play(
    seconds,
    chains: int,
    updates: int,
    age: int | None,
    write: float = 0.0,
    learn: float = 0.0,
    slots: int | None = None,
) -> Played:
    """One run; `age` None: the schedule `step`. A slot for every chain unless given."""
    cluster, times = Cluster(slots or chains), []
    environment = OnCluster(Attempts(), cluster)
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as folder, RunLog.create(Path(folder) / "run", "", {}) as log:
        parts = {
            "environment": environment,
            "policy": Written(seconds, cluster, write, learn),
            "pricer": Pricer(environment, Objective(), NIW(), Accumulators(chains), buffer=SolutionBuffer(2 * chains)),
            "log": log,
            "budget": Budget(steps=updates),
            "checkpoint_every": 50,
            "on_step": lambda step: times.append(cluster.now),
        }
        begin = time.process_time()
        if age is None:
            Loop(**parts).run()
        else:
            StreamLoop(stream=Stream(chains, chains, age=age), make_under_way=InSlots, **parts).run()
        own = time.process_time() - begin
        rows = log.table("step", "updates")
    assert len(rows["step"]) == chains * updates, "not as many attempts as the other schedule"
    ages = tuple(step - 1 - made for step, made in zip(rows["step"], rows["updates"], strict=True))
    return Played(cluster.now, cluster.busy(), ages, tuple(times), own / len(ages))


def on_cluster(plain: Loop, age: int | None) -> tuple[Loop, Cluster]:
    """The same run on a cluster with a slot for every chain; with an `age` its chains do not wait."""
    cluster = Cluster(plain.pricer.chains.chains)
    plain.environment = OnCluster(plain.environment, cluster)
    if age is None:
        return plain, cluster
    names = ("environment", "policy", "pricer", "log", "budget", "seed", "checkpoint_every")
    parts = {name: getattr(plain, name) for name in names}
    stream = Stream(cluster.slots, cluster.slots, age=age)
    return StreamLoop(stream=stream, make_under_way=InSlots, **parts), cluster
