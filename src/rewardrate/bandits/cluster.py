"""The same batches on several machines: one Ray task per batch. Results do not depend on where a batch ran."""

from __future__ import annotations

from collections.abc import Sequence

from rewardrate.bandits.jobs import Finished, TrialBatch, run_batch
from rewardrate.errors import MissingExtra


def run_on_ray(batches: Sequence[TrialBatch], steps: int) -> Finished:
    """Every batch on a core of the cluster (RAY_ADDRESS, or this machine), in the order in which they end.

    A task that dies with its machine is run again elsewhere; the same seeds give the same numbers.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtra("a study on several machines", "ray", "ray") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, include_dashboard=False)
    try:
        task = ray.remote(run_batch).options(num_cpus=1, max_retries=3)
        waiting = {task.remote(batch, steps): i for i, batch in enumerate(batches)}
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(ready), ray.get(ready)
    finally:
        if ours:
            ray.shutdown()
