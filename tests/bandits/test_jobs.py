"""Batches on threads and processes: the same numbers."""

import numpy as np

from rewardrate.bandits import NPG, SPG, World
from rewardrate.bandits.jobs import TrialBatch, run_batch, run_batches, run_in_processes

BATCHES = [
    TrialBatch(World("E1", 5, 4), [NPG(0.3, 60), NPG(1.0, 60)], range(3), np.array([200])),
    TrialBatch(World("E2", 6, 4), [SPG(0.3, 60)], range(2), np.array([200])),
    TrialBatch(World("E2", 6, 4), [], range(2), np.array([200])),
]


def test_batches_come_back_with_one_traces_per_agent():
    found = dict(run_batches(BATCHES, 200, workers=2))
    assert [len(found[i]) for i in range(3)] == [2, 1, 0]
    assert found[0][1].regret.shape == (3, 1)


def test_processes_change_nothing():
    here = [run_batch(batch, 200) for batch in BATCHES]
    there = dict(run_in_processes(BATCHES, 200, 2))
    for i, traces in enumerate(here):
        for mine, theirs in zip(traces, there[i], strict=True):
            assert (mine.regret == theirs.regret).all()
