"""NPG-NIW."""

import numpy as np

from rewardrate.bandits import NPG, SPG, World, simulate

WORLD = World("E1", 10, 4)
REGRET = [[46.030520298, 74.279111916], [30.91850797, 46.381515666]]


def test_a_fixed_seed_gives_these_numbers():
    """Pinned: a change here changes every result. (1e-6: other processors add in another order.)"""
    traces = simulate(WORLD, NPG(0.3, 1000), [0, 1], 2000, marks=[100, 2000])
    assert np.allclose(traces.regret, REGRET, rtol=1e-6)


def test_it_learns_and_its_price_comes_near_the_optimal_rate():
    traces = simulate(WORLD, NPG(0.3, 2000), range(20))
    assert abs(np.median(traces.price[:, -1]) - WORLD.optimal_rate) < 0.1
    per_step = np.diff(traces.pseudo_regret[:, [0, 50, -1]]) / np.diff(traces.steps[[0, 50, -1]])
    assert (np.median(per_step[:, 1]) < 0.3 * np.median(per_step[:, 0])).all()


def test_it_beats_the_standard_gradient_where_arms_are_many():
    """n = 12 pairs on one world with common random numbers; the gap is many standard errors wide."""
    world = World("E1", 160, 64)
    natural, standard = (simulate(world, agent(3.0, 1000), range(12)).final_regret for agent in (NPG, SPG))
    assert (standard - natural).mean() > 3 * (standard - natural).std(ddof=1) / np.sqrt(12)
