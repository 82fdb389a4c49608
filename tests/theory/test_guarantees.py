"""Constants and right-hand sides, against numbers worked out by hand."""

import math

import pytest

from rewardrate.errors import InputError
from rewardrate.theory import bounds

# One context: 1 in 1 s (rate 1, optimal) or 1.5 in 4 s.
REWARD, SECONDS = [[1.0, 1.5]], [[1.0, 4.0]]


def test_constants_by_hand():
    b = bounds(REWARD, SECONDS)
    assert (b.rho_star, b.rho_max, b.delta_min, b.delta_max) == (1.0, 1.5, 1.0, 4.0)
    assert (b.R, b.chi, b.delta_spr, b.actions) == (4.0, 0.75, 3.0, 2)
    assert b.Delta_star == pytest.approx(2.5)  # q* = 0 and 1.5 - 4
    assert b.epsilon_bar == pytest.approx(2.5 / 6)


def test_right_hand_sides_by_hand():
    b = bounds(REWARD, SECONDS)
    low, high = b.interval(4, 0.1)
    assert low == pytest.approx((1 - 4 * 0.1 / 1.1) * 1.0 - (0.75 / 1.1) ** 2 * 1.5)
    assert high == pytest.approx(1.1)
    assert b.error(3) == pytest.approx(math.exp(0.25) * 4**-0.25)
    assert b.k0() == math.ceil((math.exp(0.25) * 1.0 / (2.5 / 6)) ** 4)
    assert b.tail(10, 0.2) == pytest.approx(math.exp(-0.2 * 2.5 * 10 / 2))


def test_a_start_at_the_optimum_is_there_at_once():
    assert bounds(REWARD, SECONDS).k0(1.0) == 1


def test_k0_may_be_beyond_all_numbers():
    assert bounds([[1.0, 1.0, 2.0]], [[1.0, 1.001, 5000.0]]).k0() == math.inf


def test_one_action_has_an_infinite_gap_and_no_tail():
    b = bounds([[1.0], [2.0]], [[1.0], [3.0]])
    assert math.isinf(b.Delta_star)
    assert math.isinf(b.epsilon_bar)
    assert (b.k0(), b.tail(1, 1.0)) == (1, 0.0)


def test_ties_at_the_optimum_have_no_gap_and_no_k0():
    b = bounds([[1.0, 2.0]], [[1.0, 2.0]])
    assert (b.Delta_star, b.epsilon_bar, b.k0()) == (0.0, 0.0, math.inf)


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.interval(1),
        lambda b: b.interval(2, 1.5),
        lambda b: b.error(0),
        lambda b: b.error(2, start=1.1),
        lambda b: b.k0(-0.1),
    ],
)
def test_outside_the_theorems_conditions_there_is_no_bound(call):
    with pytest.raises(InputError):
        call(bounds(REWARD, SECONDS))


def test_negative_rewards_are_outside_the_theory():
    with pytest.raises(InputError, match="assumption A1"):
        bounds([[-1.0]], [[1.0]])


def test_a_gap_is_judged_within_its_own_context():
    assert bounds([[1, 0.999], [2e6, 1]], [[1, 1], [1, 1e10]], [1, 0]).Delta_star == pytest.approx(1e-3)


def test_times_apart_by_more_than_rounding_leave_k0_infinite_not_broken():
    assert bounds([[1, 2]], [[1e-9, 1e8]]).k0() == math.inf
