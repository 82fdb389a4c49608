"""The price before a deadline: the derivative it is said to be, its limits, its units, its state."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.errors import InputError
from rewardrate.rates import Horizon

STEPS = st.lists(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=2, max_size=6), min_size=1, max_size=12
)


def played(steps, deadline, reward_unit=1.0, seconds_unit=1.0):
    """The prices after each step, and the price object."""
    price = Horizon()
    found = []
    for step in steps:
        reward, seconds = np.array(step).T
        found.append(
            price.update(reward * reward_unit, seconds * seconds_unit, chains=4, deadline=deadline * seconds_unit)
        )
    return found, price


def learning(rate, seconds, steps, best=1.0):
    """Rows of two attempts: one earns the best, the other what makes the mean approach it exponentially."""
    found = []
    for step in range(steps):
        mean = best * (1 - 0.4 * math.exp(-rate * step))
        found.append([(best, seconds), (2 * mean - best, seconds)])
    return found


@pytest.mark.parametrize(("rate", "seconds", "deadline"), [(0.02, 3.0, 100.0), (0.05, 1.0, 40.0), (0.1, 7.0, 900.0)])
def test_it_is_the_derivative_of_the_score_at_the_deadline(rate, seconds, deadline):
    """J(T) as a function of seconds per attempt, differentiated numerically, with the slope the price has fitted."""
    _, price = played(learning(rate, seconds, 12), deadline)
    steps, slope, left = price._steps, price._slope, deadline - price.used
    headroom = 1.0 - np.mean([mean for _, mean in steps[-3:]])
    gain = slope * seconds  # per attempt: what stays the same when attempts take longer

    def at_deadline(d):
        return -headroom * math.exp(-gain * left / (d * headroom))

    expected = -(at_deadline(seconds + 1e-4) - at_deadline(seconds - 1e-4)) / 2e-4
    assert price.price == pytest.approx(expected, rel=1e-4)
    assert price.price > 0


def test_the_slope_it_fits_is_that_of_the_rewards():
    """Mean reward 0.1 + 0.02 per second used: the fitted slope tends to 0.02 (it is smoothed over updates)."""
    price = Horizon()
    for step in range(1, 13):
        mean = 0.1 + 0.02 * step  # each of two chains uses one second a step
        price.update([2 * mean, 0.0], [1.0, 1.0], chains=2, deadline=100.0)
    assert price._slope == pytest.approx(0.02, rel=0.01)


@given(STEPS, st.floats(0.1, 1e4))
def test_it_is_finite_never_negative_and_bounded_by_headroom_over_e_attempts(steps, deadline):
    prices, _ = played(steps, deadline)
    for step, price in zip(steps, prices, strict=True):
        mean_seconds = np.mean([seconds for _, seconds in step])
        assert math.isfinite(price)
        assert 0 <= price <= 1.0 / (math.e * mean_seconds) * (1 + 1e-9)


@given(STEPS)
def test_it_is_zero_at_the_deadline_and_after_it(steps):
    used = sum(seconds for step in steps for _, seconds in step) / 4
    prices, _ = played(steps, used)
    assert prices[-1] == pytest.approx(0.0, abs=1e-9)  # the sum of all seconds is rounded
    assert played(steps, 0.5 * used)[0][-1] == 0.0


@given(STEPS, st.floats(1, 1e3), st.sampled_from([0.01, 0.5, 10.0]), st.sampled_from([0.1, 3.0, 60.0]))
def test_units_do_not_matter(steps, deadline, reward_unit, seconds_unit):
    plain, _ = played(steps, deadline)
    scaled, _ = played(steps, deadline, reward_unit, seconds_unit)
    expected = [price * reward_unit / seconds_unit for price in plain]
    assert scaled == pytest.approx(expected, rel=1e-6, abs=1e-9 * reward_unit / seconds_unit)


HUGE = st.lists(st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(1e-300, 1e300)), max_size=4), max_size=8)


@given(HUGE, st.floats(1e-300, 1e300), st.integers(1, 10))
def test_whatever_the_numbers_it_is_finite_never_negative_and_zero_once_the_time_is_used_up(steps, deadline, chains):
    price = Horizon()
    for step in steps:
        before = price.price
        found = price.update([r for r, _ in step], [s for _, s in step], chains=chains, deadline=deadline)
        assert math.isfinite(found)
        assert found >= 0
        assert found == (before if not step else 0.0) or price.used < deadline
        resumed = Horizon()
        resumed.load_state_dict(json.loads(json.dumps(price.state_dict(), allow_nan=False)))
        assert resumed.state_dict() == price.state_dict()


@pytest.mark.parametrize(
    "steps",
    [
        [[(0.0, 1.0)] * 4] * 6,  # nothing valid: nothing better is known
        [[(1 - 0.1 * step, 1.0), (0.5 - 0.1 * step, 1.0)] for step in range(5)],  # getting worse: the slope is no gain
        [[(0.3, 2.0)]] * 5,  # one attempt a step
    ],
)
def test_it_is_zero_without_a_valid_attempt_without_progress_and_with_a_single_script(steps):
    price = Horizon()
    found = [price.update(*map(list, zip(*step, strict=True)), chains=len(step), deadline=100.0) for step in steps]
    assert found[3:] == [0.0] * len(found[3:])


def test_it_is_zero_where_nothing_is_left_to_improve_and_small_when_learning_ends_long_before():
    assert played([[(0.5, 1.0), (0.5, 2.0)]] * 8, 1e3)[0][-1] == 0.0
    near, far = (played(learning(0.05, 1.0, 12), deadline)[0][-1] for deadline in (60.0, 5000.0))
    assert far < 1e-3 * near


@given(STEPS, st.floats(1, 1e3))
def test_a_saved_state_resumes_bit_for_bit(steps, deadline):
    straight, resumed = Horizon(), Horizon()
    for step in steps:
        reward, seconds = np.array(step).T
        text = json.dumps(resumed.state_dict(), allow_nan=False)
        resumed = Horizon()
        resumed.load_state_dict(json.loads(text))
        one, other = (each.update(reward, seconds, chains=4, deadline=deadline) for each in (straight, resumed))
        assert one == other
    assert straight.state_dict() == resumed.state_dict()


@given(STEPS, st.floats(1, 1e3), st.integers(1, 50), st.floats(0, 10))
def test_it_depends_on_the_seconds_of_a_chain_alone_and_not_on_the_rate(steps, deadline, chains, rate):
    """Twice the chains with twice the attempts, each attempt made twice, is the same price at the same deadline."""
    one, other = Horizon(), Horizon()
    for step in steps:
        reward, seconds = np.array(step).T
        price = one.update(reward, seconds, chains=chains, deadline=deadline)
        doubled = [np.tile(column, 2) for column in (reward, seconds)]
        again = other.update(*doubled, rate=rate, chains=2 * chains, deadline=deadline)
        assert again == pytest.approx(price, rel=1e-6, abs=1e-9)


def test_a_longer_deadline_costs_more_while_learning_still_needs_the_time_and_less_afterwards():
    """price = slope * (left / d) * exp(-u) rises until u = 1 and falls from there."""
    prices = [played(learning(0.02, 1.0, 12), deadline)[0][-1] for deadline in np.linspace(7.0, 600.0, 200)]
    top = int(np.argmax(prices))
    assert 0 < top < 199
    assert np.all(np.diff(prices[: top + 1]) > 0)
    assert np.all(np.diff(prices[top:]) < 0)


def test_bad_rows_and_damaged_states_are_refused_and_change_nothing():
    price = Horizon()
    price.update([0.5, 0.1], [1.0, 2.0], chains=2, deadline=10.0)
    before = price.state_dict()
    for reward, seconds, more, words in (
        ([0.1, math.nan], [1.0, 1.0], {}, r"reward\[1\]"),
        ([0.1, 0.2], [1.0, 0.0], {}, r"seconds\[1\]"),
        ([0.1], [1.0], {"deadline": 0.0}, "deadline"),
        ([0.1], [1.0], {"deadline": math.inf}, "deadline"),
        ([0.1], [1.0], {"chains": 0}, "chains"),
    ):
        with pytest.raises(InputError, match=words):
            price.update(reward, seconds, **{"chains": 2, "deadline": 10.0} | more)
        assert price.state_dict() == before
    for damage in ({"window": 7}, {"slope": -1.0}, {"steps": [[1.0]]}, {"best": "x"}, {"used": math.nan}):
        with pytest.raises(InputError, match="cannot be restored"):
            price.load_state_dict(before | damage)
        assert price.state_dict() == before
    price.update([], [], chains=2, deadline=10.0)
    assert price.state_dict() == before
    with pytest.raises(InputError, match="window"):
        Horizon(window=2)
