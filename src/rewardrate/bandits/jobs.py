"""Batches of trials on threads, processes, one GPU or a cluster; results are yielded as they finish."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from rewardrate.bandits.agents import Agent
from rewardrate.bandits.engine import Engine, Traces, simulate_many
from rewardrate.bandits.world import World
from rewardrate.errors import InputError

Finished = Iterator[tuple[int, list[Traces]]]


class TrialBatch(NamedTuple):
    """Several agents on one world and the same seeds."""

    world: World
    agents: Sequence[Agent]
    seeds: Any
    marks: Any


def run_batches(
    batches: Sequence[TrialBatch],
    steps: int,
    *,
    engine: Engine = "auto",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Finished:
    """(number of the batch, one Traces per agent) for every batch. `progress` is called with the trials done in the
    current one.

    Engine "cuda" is one GPU and the CPU's cores, "ray" a cluster: there batches come in the order in which they end.
    """
    if engine == "cuda":
        from rewardrate.bandits.cuda import run_on_gpu

        yield from run_on_gpu(batches, steps, workers)
        return
    if engine == "ray":
        from rewardrate.bandits.cluster import run_on_ray

        yield from run_on_ray(batches, steps)
        return
    for i, batch in enumerate(batches):
        yield i, run_batch(batch, steps, engine, workers, progress)


def run_batch(
    batch: TrialBatch,
    steps: int,
    engine: Engine = "auto",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[Traces]:
    """Run one batch in this process."""
    if not batch.agents:
        return []
    return simulate_many(
        batch.world,
        batch.agents,
        batch.seeds,
        steps,
        marks=batch.marks,
        workers=workers,
        engine=engine,
        progress=progress,
    )


def run_in_processes(batches: Sequence[TrialBatch], steps: int, processes: int) -> Finished:
    """Every batch in a process: compiling takes seconds, and processes compile at the same time."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, min(processes, len(batches))), mp_context=spawn) as pool:
        waiting = {pool.submit(run_batch, batch, steps): i for i, batch in enumerate(batches)}
        for future in as_completed(waiting):
            try:
                yield waiting[future], future.result()
            except BrokenProcessPool:
                rule = "a process died: memory ran out, it was killed, or it cannot import an agent"
                raise InputError("workers", processes, rule, "try workers = 1") from None
