"""2,000 attempts over three Ray nodes on this machine, one killed and replaced: all accounted for, no slot idle.

    python benchmarks/bench_ray.py [attempts] [seconds of each]

Scripts sleep, so that six slots fit on two cores; box, cluster and kill are real. Ideal: the slots that were there,
busy all the time. A slot is busy while the box of an attempt stands (script and box, as `Result` says). Exit status 1
if an attempt is missing or came twice, if one failed, or if the slots were busy for less than 90 % of the ideal.
"""

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "scale"))

from ray_cluster import local_cluster

from rewardrate.sandbox import Job, Limits
from rewardrate.scale import RayExecutor

NODES, SLOTS = 3, 2
FLOOR = 0.9


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


def main(attempts: int = 2000, seconds: float = 0.3) -> bool:
    jobs = [Job(f"import time; time.sleep({seconds})", Limits(seconds=30, cores=1)) for _ in range(attempts)]
    with local_cluster(NODES, SLOTS) as cluster, RayExecutor(cluster.address, repeats=0) as executor:
        executor.run(jobs[: 4 * NODES * SLOTS])  # every node is up
        fate, start = Fate(cluster, attempts), time.monotonic()
        results = executor.run(jobs, on_done=fate.on_done)
        end, faults = time.monotonic(), executor.faults
    wall, away = end - start, fate.away(end)
    statuses = Counter(result.status for result in results)
    offered = SLOTS * (NODES * wall - away)
    share = sum(result.seconds + result.overhead_seconds for result in results) / offered
    scripts = sum(result.seconds for result in results) / offered
    once = set(fate.seen.values()) == {1} and len(fate.seen) == len(results) == attempts
    print(f"{attempts} attempts over {NODES} nodes of {SLOTS} slots, one node killed and replaced {away:.1f} s later")
    print(f"each accounted for exactly once: {once}; {dict(statuses)}; {faults} lost with their node and run again")
    print(f"{wall:.1f} s, {attempts / wall:.1f} attempts a second; slots busy {share:.1%} of the ideal")
    print(f"(the scripts alone: {scripts:.1%}; the rest of a busy slot is the box, made and taken away)")
    return once and set(statuses) == {"ok"} and share >= FLOOR


if __name__ == "__main__":
    given = sys.argv[1:3]
    passed = main(*[kind(word) for kind, word in zip((int, float), given, strict=False)])
    print("passed" if passed else f"NOT passed: all once, all ok, and {FLOOR:.0%} of the ideal were wanted")
    sys.exit(0 if passed else 1)
