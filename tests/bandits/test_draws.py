"""One draw: means as in closed form, correlation as the family says."""

import numpy as np
import pytest

from rewardrate.bandits.draws import draw
from rewardrate.bandits.world import FAMILIES, World

N = 40_000


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_closed_form_means_the_floor_and_the_sign_of_the_correlation(name):
    """n = 40,000 per arm; 8 means within 4 standard errors: a false alarm once in 2,000. The seed is fixed."""
    world, family = World(name, 6, 4), FAMILIES[name]
    key = np.uint64(99)
    for arm, row in ((0, 2), (3, 3), (2, 0), (4, 3)):
        means = world.mean_reward[row, arm], world.mean_seconds[row, arm]
        sample = np.array([draw(*means, family.correlation, float(family.lognormal), key, 2 * i) for i in range(N)])
        truth = world.true_reward[row, arm], world.true_seconds[row, arm]
        assert np.abs(sample.mean(axis=0) - truth).max() < 4 * (sample.std(axis=0) / np.sqrt(N)).max()
        assert sample[:, 0].min() >= 0
        assert sample[:, 1].min() >= 0.5
        correlation = np.corrcoef(sample.T)[0, 1]
        if arm == 2:  # far from both floors
            expected = {"E1": 0.0, "E2": 0.8, "E3": -0.8, "E4": (np.exp(0.125) - 1) / (np.exp(0.25) - 1)}[name]
            assert correlation == pytest.approx(expected, abs=0.03)


def test_the_same_counter_is_the_same_draw():
    assert draw(0.5, 1.0, 0.8, 0.0, np.uint64(7), 3) == draw(0.5, 1.0, 0.8, 0.0, np.uint64(7), 3)
    assert draw(0.5, 1.0, 0.8, 0.0, np.uint64(7), 3) != draw(0.5, 1.0, 0.8, 0.0, np.uint64(7), 5)
