"""Batches on Ray: the same numbers, where Ray is installed."""

import sys

import numpy as np
import pytest

from rewardrate.bandits import NPG, SPG, World
from rewardrate.bandits.cluster import run_on_ray
from rewardrate.bandits.jobs import TrialBatch, run_batch, run_batches
from rewardrate.errors import MissingExtra
from scale.ray_cluster import local_cluster

BATCHES = [
    TrialBatch(World("E1", 5, 4), [NPG(0.3, 60), NPG(1.0, 60)], range(3), np.array([200])),
    TrialBatch(World("E2", 6, 4), [SPG(0.3, 60)], range(2), np.array([200])),
]


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_changes_nothing():
    pytest.importorskip("ray")
    found = dict(run_batches(BATCHES, 200, engine="ray"))
    for i, batch in enumerate(BATCHES):
        for mine, theirs in zip(run_batch(batch, 200), found[i], strict=True):
            assert (mine.regret == theirs.regret).all()


def test_a_machine_that_is_lost_in_the_middle_changes_nothing(monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed: a study over several machines is NOT tested")
    worlds = [World(family, 5, 4) for family in ("E1", "E2", "E3", "E4")]
    batches = [
        TrialBatch(world, [NPG(0.3, age)], range(3), np.array([300])) for world in worlds for age in (60, 125, 250)
    ]
    found = {}
    with local_cluster(2, cpus=1) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        for i, traces in run_on_ray(batches, 300):
            assert i not in found
            found[i] = traces
            if len(found) == 3:
                cluster.kill(cluster.nodes[0])
    assert sorted(found) == list(range(len(batches)))
    for i, batch in enumerate(batches):
        for mine, theirs in zip(run_batch(batch, 300), found[i], strict=True):
            assert (mine.regret == theirs.regret).all()


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[ray\]"):
        list(run_on_ray(BATCHES, 200))
