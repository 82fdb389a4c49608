"""How soon estimators notice that the policy became faster."""

import pytest

from rewardrate.rates import ESTIMATORS, NIW, Fixed, RobbinsMonro
from rewardrate.rates.changepoint import CONTENDERS, rate_path, recovery


def test_running_totals_lag_as_they_must_and_a_window_repairs_it():
    """Ten slow steps, then four times faster: after k fast ones the totals stand at (10 + k) / (40 + k) of the rate."""
    path = rate_path(NIW(), 60)
    for step in (20, 30, 60):
        fast = step - 10
        assert path[step - 1] == pytest.approx((10 + fast) / (40 + fast), abs=0.02)
    assert rate_path(NIW(), 60, window=5)[19] == pytest.approx(1.0, abs=0.1)
    assert recovery(NIW(), window=5) < 10 < recovery(NIW())


def test_recovery_counts_the_updates_until_it_stays_within_a_tenth():
    path = rate_path(RobbinsMonro(), 80)[10:]
    first = recovery(RobbinsMonro())
    assert all(abs(ratio - 1) <= 0.1 for ratio in path[first - 1 : first + 4])
    assert abs(path[first - 2] - 1) > 0.1


def test_an_estimator_that_never_moves_never_recovers():
    assert recovery(Fixed(1.0), limit=50) is None


def test_every_contender_of_the_table_can_be_made():
    pytest.importorskip("torch")
    assert {type(make()) for make, _ in CONTENDERS.values()} == set(ESTIMATORS.values())
