"""Robbins-Monro."""

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import RobbinsMonro
from rewardrate.rates.renewal import Renewal


def test_the_first_update_is_the_ratio_of_its_batch():
    assert RobbinsMonro().update([1.0, 2.0], [3.0, 5.0]).rate == pytest.approx(3 / 8)


def test_the_walk_is_the_recursion_of_its_docstring():
    walk = RobbinsMonro(power=0.7)
    rate = seconds = 0.0
    rng = np.random.default_rng(0)
    for k in range(1, 30):
        r, s = rng.uniform(0, 1, 5), rng.uniform(1, 2, 5)
        step = k**-0.7
        seconds += step * (s.mean() - seconds)
        rate += step * (r - rate * s).mean() / seconds
        assert walk.update(r, s).mean == pytest.approx(rate, rel=1e-12)


def test_it_converges_to_the_root_of_the_expected_relative_reward():
    process, rng, walk = Renewal(), np.random.default_rng(1), RobbinsMonro()
    for _ in range(3000):
        estimate = walk.update(*process.draw(rng, 8))
    assert estimate.rate == pytest.approx(process.rate, rel=0.03)
    assert estimate.low < process.rate < estimate.high


@pytest.mark.parametrize(("floor", "size"), [(0.3, 1), (0.3, 8), (0.0, 1)])
def test_the_interval_covers_the_true_rate_as_often_as_it_says_also_for_small_batches(floor, size):
    """400 repetitions of 40 updates; 95 % nominal, 91 to 98 % has a false-alarm rate below 1 %."""
    process, rng, inside = Renewal(), np.random.default_rng(2), 0
    for _ in range(400):
        walk = RobbinsMonro(floor=floor)
        for _ in range(40):
            estimate = walk.update(*process.draw(rng, size))
        inside += estimate.low <= process.rate <= estimate.high
    assert 0.91 <= inside / 400 <= 0.98


def test_a_floor_keeps_it_following():
    still, moving = RobbinsMonro(), RobbinsMonro(floor=0.3)
    for walk in (still, moving):
        for _ in range(500):
            walk.update([1.0], [10.0])
        for _ in range(20):
            walk.update([1.0], [1.0])
    assert moving.estimate.rate == pytest.approx(1.0, rel=0.01)
    assert still.estimate.rate < 0.9


def test_a_sudden_slow_down_never_overshoots_below_zero():
    walk = RobbinsMonro(floor=0.5)
    walk.update([1.0], [1.0])
    for _ in range(5):
        assert walk.update([1.0], [1e6]).mean >= 0


@pytest.mark.parametrize("settings", [{"power": 0.5}, {"power": 1.2}, {"floor": -0.1}, {"floor": 2.0}])
def test_settings_outside_the_theory_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        RobbinsMonro(**settings)
