"""The relative reward, and the charge for a failure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate import relative_reward
from rewardrate.errors import InputError
from rewardrate.rates import RateEstimate

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-3, 1e6)


def test_a_valid_attempt_pays_for_its_seconds_and_an_invalid_one_for_the_whole_limit():
    left = relative_reward([0.8, 0.8], [20.0, 1.0], 0.01, valid=[True, False], limit_seconds=600, penalty=-10.0)
    assert left.tolist() == pytest.approx([0.8 - 0.2, -10 - 6.0])


def test_numbers_give_a_number_and_an_estimate_serves_as_the_rate():
    estimate = RateEstimate(0.1, 0.09, 0.0, 0.2, 5)
    left = relative_reward(1.0, 2.0, estimate, valid=True, limit_seconds=10)
    assert isinstance(left, float)
    assert left == pytest.approx(0.8)


def test_the_reward_and_seconds_of_a_failure_are_not_looked_at():
    left = relative_reward([np.nan, 1.0], [np.nan, 1.0], 0.5, valid=[False, True], limit_seconds=4.0)
    assert left.tolist() == [-12.0, 0.5]


@given(st.floats(0, 1), st.floats(0.1, 600), st.floats(0, 10), st.floats(0.1, 600))
def test_every_failure_lies_strictly_below_every_valid_attempt(score, seconds, rate, other):
    valid = relative_reward(score, seconds, rate, valid=True, limit_seconds=600.0)
    failed = relative_reward(0.0, other, rate, valid=False, limit_seconds=600.0)
    assert failed < valid


@given(finite, positive)
def test_at_price_zero_time_is_free(reward, seconds):
    assert relative_reward(reward, seconds, 0.0) == reward


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rate": -0.1}, "rate = -0.1"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"reward": [1.0, np.nan]}, r"reward\[1\] = nan"),
        ({"reward": np.inf}, "reward = inf"),
        ({"seconds": [1.0, 0.0]}, r"seconds\[1\] = 0.0"),
        ({"seconds": "soon"}, "vector of numbers"),
        ({"rate": None}, "rate = None"),
        ({"rate": [0.1]}, "rate"),
        ({"limit_seconds": "a"}, "limit_seconds = 'a'"),
        ({"seconds": 1e308, "rate": 1e308}, "64-bit"),
        ({"reward": [[1.0], [1.0, 2.0]]}, "numbers of one shape"),
        ({"seconds": [1.0, 2.0], "reward": [1.0, 2.0, 3.0]}, "numbers of one shape"),
        ({"valid": False}, "limit_seconds = None"),
        ({"limit_seconds": 0.0}, "limit_seconds = 0.0"),
        ({"penalty": np.inf}, "penalty"),
    ],
)
def test_bad_input_names_the_field(arguments, words):
    call = {"reward": 1.0, "seconds": 1.0, "rate": 0.1} | arguments
    with pytest.raises(InputError, match=words):
        relative_reward(call.pop("reward"), call.pop("seconds"), call.pop("rate"), **call)
