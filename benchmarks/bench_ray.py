"""2,000 attempts over three Ray nodes on this machine, one killed and replaced: all accounted for, no slot idle.

    python benchmarks/bench_ray.py [attempts] [seconds of each] [stream]

With `stream` the attempts are those of a training run whose chains do not wait, two chains a slot, with the real loop,
its record and a policy that learns nothing; without, they are one list of jobs. Scripts sleep, so that six slots fit on
two cores; box, cluster and kill are real. Ideal: the slots that were there, busy all the time. A slot is busy while the
box of an attempt stands (script and box, as `Result` says). Exit status 1 if an attempt is missing or came twice, if
one failed, or if the slots were busy for less than 90 % of the ideal.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "scale"))

from ray_cluster import local_cluster

import toy_agent
from rewardrate.attempt import Proposal
from rewardrate.environments import Environment
from rewardrate.environments.environment import measured
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Job, Limits
from rewardrate.sandbox.shared_executor import SharedExecutor
from rewardrate.scale import RayExecutor
from rewardrate.training.under_way import UnderWay

NODES, SLOTS = 3, 2
CHAINS = 2 * NODES * SLOTS
FLOOR = 0.9


class Sleeps(Environment):
    """An attempt is one of the benchmark's scripts; it earns 1."""

    limit_seconds = 30.0

    def __init__(self, executor, job: Job) -> None:
        self.executor, self.job, self.results = executor, job, []

    def prompt(self, parent=None):  # noqa: D102, as its base says
        return [{"role": "user", "content": "go"}]

    def stream(self, replies, parents=None):  # noqa: D102
        for place, result in self.executor.stream([self.job] * len(replies)):
            self.results.append(result)
            fine = result.status == "ok"
            outcome = measured(result, replies[place])
            yield place, type(outcome)(**{**outcome.__dict__, "valid": fine, "reward": float(fine)})


class Numbered(toy_agent.RowByRow):
    """Writes its row, and learns nothing."""

    def propose(self, prompts, seed, first=0):  # noqa: D102
        return [Proposal(f"quick {row}") for row in range(first, first + len(prompts))]

    def learn(self, proposals, rewards):  # noqa: D102
        return {}


def streamed(executor, job: Job, attempts: int, fate: "Fate") -> tuple[list, bool]:
    """The results of a training run's attempts, and whether its record has each once; those of the end included."""
    with tempfile.TemporaryDirectory() as folder, SharedExecutor(executor) as shared:
        world = Sleeps(shared, job)
        loop = toy_agent.stream_loop(
            Path(folder) / "run", batch=CHAINS, steps=attempts // CHAINS, age=8, under_way=UnderWay, environment=world
        )
        loop.policy, numbers = Numbered(), iter(range(10**9))
        loop.usage = shared.usage
        loop.on_attempt = lambda place, outcome: fate.on_done(next(numbers), outcome)
        with loop.log:
            loop.run()
        with RunLog.open(Path(folder) / "run", read_only=True) as log:
            rows, pending = log.attempts(), log.pending()
            idle = [step.metrics["idle_share"] for step in log.steps() if "idle_share" in step.metrics]
    taken = [row.id for row in rows] == list(range(1, attempts // CHAINS * CHAINS + 1))
    ends = [row.arrival for row in (*rows, *pending) if row.arrival is not None]
    ages = [row.step - 1 - row.updates for row in rows]
    print(f"ages: mean {sum(ages) / len(ages):.2f}, largest {max(ages)}; idle share {sum(idle) / len(idle):.1%}")
    return world.results, taken and sorted(ends) == list(range(1, len(ends) + 1))


class Fate:
    """Kills a node when a third is done and adds another at half; this holds up the driver, as it would a user's."""

    def __init__(self, cluster, attempts: int) -> None:
        self.cluster, self.seen, self.marks = cluster, Counter(), {}
        self.plan = {attempts // 3: self.kill, attempts // 2: self.add}

    def on_done(self, index: int, result: object) -> None:
        """An attempt is over."""
        self.seen[index] += 1
        if act := self.plan.get(self.seen.total()):
            act()

    def kill(self) -> None:
        """End a node as if its plug were pulled."""
        self.cluster.kill(self.cluster.nodes[1])
        self.marks["killed"] = time.monotonic()

    def add(self) -> None:
        """A node in its place."""
        self.cluster.add()
        self.marks["added"] = time.monotonic()

    def away(self, end: float) -> float:
        """Seconds in which a node was missing."""
        return self.marks.get("added", end) - self.marks.get("killed", end)


def main(attempts: int = 2000, seconds: float = 0.3, schedule: str = "list") -> bool:
    """Whether every attempt was accounted for once, without a failure, on slots that were busy."""
    jobs = [Job(f"import time; time.sleep({seconds})", Limits(seconds=30, cores=1)) for _ in range(attempts)]
    with local_cluster(NODES, SLOTS) as cluster, RayExecutor(cluster.address, repeats=0) as executor:
        executor.run(jobs[: 4 * NODES * SLOTS])  # every node is up
        fate, start = Fate(cluster, attempts), time.monotonic()
        once = True
        if schedule == "stream":
            results, once = streamed(executor, jobs[0], attempts, fate)
        else:
            results = executor.run(jobs, on_done=fate.on_done)
        end, faults = time.monotonic(), executor.faults
    wall, away = end - start, fate.away(end)
    statuses = Counter(result.status for result in results)
    offered = SLOTS * (NODES * wall - away)
    share = sum(result.seconds + result.overhead_seconds for result in results) / offered
    scripts = sum(result.seconds for result in results) / offered
    if schedule != "stream":
        once = set(fate.seen.values()) == {1} and len(fate.seen) == len(results) == attempts
    print(f"{attempts} attempts over {NODES} nodes of {SLOTS} slots, one node killed and replaced {away:.1f} s later")
    print(f"each accounted for exactly once: {once}; {dict(statuses)}; {faults} lost with their node and run again")
    print(f"{wall:.1f} s, {attempts / wall:.1f} attempts a second; slots busy {share:.1%} of the ideal")
    print(f"(the scripts alone: {scripts:.1%}; the rest of a busy slot is the box, made and taken away)")
    return once and set(statuses) == {"ok"} and share >= FLOOR


if __name__ == "__main__":
    given = sys.argv[1:4]
    passed = main(*[kind(word) for kind, word in zip((int, float, str), given, strict=False)])
    print("passed" if passed else f"NOT passed: all once, all ok, and {FLOOR:.0%} of the ideal were wanted")
    sys.exit(0 if passed else 1)
