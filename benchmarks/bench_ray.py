"""2,000 attempts over three Ray nodes on this machine, one killed and replaced: all accounted for, no slot idle.

    python benchmarks/bench_ray.py [attempts] [seconds of each]

Scripts sleep, so that six slots fit on two cores; box, cluster and kill are real. Ideal: the slots that were there,
busy all the time. A slot is busy while the box of an attempt stands (script and box, as `Result` says).
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


def main(attempts: int = 2000, seconds: float = 0.3) -> float:
    jobs = [Job(f"import time; time.sleep({seconds})", Limits(seconds=30, cores=1)) for _ in range(attempts)]
    seen: Counter[int] = Counter()
    marks: dict[str, float] = {}
    with local_cluster(NODES, SLOTS) as cluster, RayExecutor(cluster.address, repeats=0) as executor:
        executor.run(jobs[: 4 * NODES * SLOTS])  # every node is up

        def on_done(index: int, result: object) -> None:
            seen[index] += 1
            if sum(seen.values()) == attempts // 3:
                cluster.kill(cluster.nodes[1])
                marks["killed"] = time.monotonic()
            if sum(seen.values()) == attempts // 2:
                cluster.add()
                marks["added"] = time.monotonic()

        start = time.monotonic()
        results = executor.run(jobs, on_done=on_done)
        wall = time.monotonic() - start
        faults = executor.faults
    statuses = Counter(result.status for result in results)
    slot_seconds = NODES * SLOTS * wall - SLOTS * (marks["added"] - marks["killed"])
    busy = sum(result.seconds + result.overhead_seconds for result in results)
    once = set(seen.values()) == {1} and len(seen) == len(results) == attempts
    print(f"{attempts} attempts, {dict(statuses)}, each accounted for exactly once: {once}; {faults} run again")
    print(f"{wall:.1f} s, {attempts / wall:.1f} attempts a second; slots busy {busy / slot_seconds:.1%} of the ideal")
    assert once, "an attempt is missing or came twice"
    return busy / slot_seconds


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:3]]
    share = main(*(int(given[0]), *given[1:]) if given else ())
    sys.exit(0 if share > 0.9 else "slots were idle for more than a tenth of the ideal")
