"""Dinkelbach's iteration."""

import itertools

import numpy as np
import pytest
from hypothesis import given

import exact
from rewardrate.errors import InputError
from rewardrate.theory import dinkelbach, optimal_rate

REWARD, SECONDS = [[1.0, 0.8], [0.3, 0.9]], [[3.0, 1.0], [1.0, 2.0]]


@given(exact.problems())
def test_the_exact_iteration_ends_at_the_optimal_rate(problem):
    tables = exact.floats(problem)
    assert list(dinkelbach(*tables))[-1] == pytest.approx(optimal_rate(*tables), rel=1e-12, abs=1e-15)


def test_from_far_too_high_a_price_it_falls_once_and_then_rises():
    path = list(dinkelbach(REWARD, SECONDS, start=1.0))
    assert path[1] < path[0]
    assert path[1:] == sorted(path[1:])


def test_a_band_goes_on_for_ever_until_one_stops_taking():
    path = list(itertools.islice(dinkelbach(REWARD, SECONDS, gamma=0.1, choose=np.random.default_rng(0)), 100))
    assert len(path) == 100
    assert len(set(path)) > 50


def test_without_a_choice_the_greedy_rate_is_taken():
    assert list(dinkelbach(REWARD, SECONDS, gamma=0.1, steps=6))[-1] == optimal_rate(REWARD, SECONDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gamma": 1.5}, "gamma = 1.5"),
        ({"start": -0.1}, "start = -0.1"),
        ({"start": 99.0}, "start = 99.0"),
        ({"start": float("nan")}, "start = nan"),
        ({"steps": 0}, "steps = 0"),
    ],
)
def test_arguments_are_checked_at_once_not_at_the_first_iterate(arguments, words):
    with pytest.raises(InputError, match=words):
        dinkelbach(REWARD, SECONDS, **arguments)


def test_negative_rewards_are_outside_the_theory():
    with pytest.raises(InputError, match="assumption A1"):
        dinkelbach([[-1.0]], [[1.0]])


def test_a_choice_outside_the_band_is_refused():
    with pytest.raises(InputError, match="must lie in the band"):
        list(dinkelbach(REWARD, SECONDS, gamma=0.1, choose=lambda k, greedy, low, high: 2 * high, steps=3))
