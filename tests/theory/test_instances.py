"""Random problems cover the edge cases they are named after."""

import json

import numpy as np
import pytest

from rewardrate.theory import bounds
from rewardrate.theory.instances import FAMILIES, draw_instance, draw_smdp


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_makes_problems_within_the_assumptions(family):
    rng = np.random.default_rng(0)
    for _ in range(50):
        instance = draw_instance(rng, family, 4, 4)
        assert (instance.reward >= 0).all()
        assert (instance.seconds > 0).all()
        assert instance.p.sum() == pytest.approx(1)
        assert json.loads(json.dumps(instance.to_json()))["family"] == family


def test_families_are_what_they_are_called():
    rng = np.random.default_rng(1)
    draws = {family: [draw_instance(rng, family, 4, 4) for _ in range(60)] for family in FAMILIES}
    assert all(np.ptp(i.seconds) == 0 for i in draws["equal-times"])
    assert all(bounds(i.reward, i.seconds, i.p).delta_spr == 0 for i in draws["times-by-context"])
    assert any(np.ptp(i.seconds) > 0 for i in draws["times-by-context"])
    assert any(bounds(i.reward, i.seconds, i.p).Delta_star == 0 for i in draws["ties"])
    assert all(i.reward.shape[1] == 1 for i in draws["one-action"])
    assert all(len(i.reward) == 1 for i in draws["one-context"])
    assert all((i.reward == 0).all() for i in draws["no-reward"])
    assert any((i.p == 0).any() for i in draws["rare-contexts"])


def test_processes_have_a_single_recurrent_class():
    rng = np.random.default_rng(2)
    for _ in range(20):
        smdp = draw_smdp(rng)
        assert smdp.stationary(np.zeros(smdp.states, int)).min() > 0
