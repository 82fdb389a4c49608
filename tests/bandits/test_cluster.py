"""Batches on Ray: the same numbers, where Ray is installed."""

import sys

import numpy as np
import pytest

from rewardrate.bandits import NPG, SPG, World
from rewardrate.bandits.cluster import run_on_ray
from rewardrate.bandits.jobs import Batch, run_batch, run_batches
from rewardrate.errors import MissingExtra

BATCHES = [
    Batch(World("E1", 5, 4), [NPG(0.3, 60), NPG(1.0, 60)], range(3), np.array([200])),
    Batch(World("E2", 6, 4), [SPG(0.3, 60)], range(2), np.array([200])),
]


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_changes_nothing():
    pytest.importorskip("ray")
    found = dict(run_batches(BATCHES, 200, engine="ray"))
    for i, batch in enumerate(BATCHES):
        for mine, theirs in zip(run_batch(batch, 200), found[i], strict=True):
            assert (mine.regret == theirs.regret).all()


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[ray\]"):
        list(run_on_ray(BATCHES, 200))
