"""SPG-NIW."""

import numpy as np

from rewardrate.bandits import SPG, World, simulate

WORLD = World("E1", 10, 4)
REGRET = [[45.363441929, 215.277648534], [43.976813776, 213.109504021]]


def test_a_fixed_seed_gives_these_numbers():
    """Pinned: a change here changes every result. (1e-6: other processors add in another order.)"""
    traces = simulate(WORLD, SPG(0.3, 1000), [0, 1], 2000, marks=[100, 2000])
    assert np.allclose(traces.regret, REGRET, rtol=1e-6)


def test_it_learns():
    traces = simulate(WORLD, SPG(1.0, 1000), range(10))
    random = traces.pseudo_regret[:, 30] / traces.steps[30]
    late = traces.pseudo_regret[:, -1] / traces.steps[-1]
    assert np.median(late) < 0.3 * np.median(random)
