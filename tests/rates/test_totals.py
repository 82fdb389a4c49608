"""Ratio of totals."""

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import Totals
from rewardrate.rates.renewal import Renewal


def test_the_rate_is_all_reward_over_all_seconds_however_the_rows_are_batched():
    one, two = Totals(), Totals()
    one.update([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    two.update([1.0], [4.0])
    two.update([2.0, 3.0], [5.0, 6.0])
    assert one.estimate.rate == pytest.approx(6 / 15)
    assert two.estimate.rate == pytest.approx(6 / 15)
    assert two.estimate.low == pytest.approx(one.estimate.low)


def test_invalid_attempts_earn_nothing_but_take_their_time():
    assert Totals().update([1.0, 5.0], [1.0, 1.0], [True, False]).rate == pytest.approx(0.5)
    assert Totals(invalid="exclude").update([1.0, 5.0], [1.0, 1.0], [True, False]).rate == pytest.approx(1.0)


def test_the_interval_covers_the_true_rate_as_often_as_it_says():
    """400 repetitions of 200 rows; 95 % nominal, so 93 to 97.5 % observed has a false-alarm rate below 5 %."""
    process, rng = Renewal(), np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        estimate = Totals().update(*process.draw(rng, 200))
        inside += estimate.low <= process.rate <= estimate.high
    assert 0.93 <= inside / 400 <= 0.975


@pytest.mark.parametrize(("forgetting", "size"), [(0.7, 128), (0.9, 8)])
def test_the_interval_is_honest_when_it_forgets(forgetting, size):
    """400 repetitions of 30 updates; 95 % nominal, 92.5 to 98 % has a false-alarm rate below 2 %."""
    process, rng, inside = Renewal(), np.random.default_rng(1), 0
    for _ in range(400):
        totals = Totals(forgetting=forgetting)
        for _ in range(30):
            estimate = totals.update(*process.draw(rng, size))
        inside += estimate.low <= process.rate <= estimate.high
    assert 0.925 <= inside / 400 <= 0.98


def test_forgetting_weighs_the_past_less():
    totals = Totals(forgetting=0.5)
    totals.update([0.0], [10.0])
    assert totals.update([10.0], [10.0]).rate == pytest.approx(10 / 15)


def test_one_row_has_an_interval_without_width():
    estimate = Totals().update(1.0, 2.0)
    assert (estimate.low, estimate.mean, estimate.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("forgetting", [0.0, 1.1, float("nan")])
def test_forgetting_lies_in_zero_to_one(forgetting):
    with pytest.raises(InputError, match="forgetting"):
        Totals(forgetting=forgetting)
