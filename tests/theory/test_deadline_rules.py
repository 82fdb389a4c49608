"""Prices before a deadline: each is the derivative that it is said to be."""

import dataclasses
import math

import numpy as np
import pytest

from rewardrate.rates import Horizon
from rewardrate.theory.deadline_problems import FAMILIES, draw_problem
from rewardrate.theory.deadline_rules import MEMORY, PRICES, DeadlineForecast, greedy, greedy_in_values, marginal

STEP = 1e-6


def random_curve(rng):
    """Level, headroom, share of the headroom that an attempt takes, seconds of an attempt, attempts left."""
    return (
        rng.uniform(0.05, 0.5),
        rng.uniform(0.1, 0.5),
        rng.uniform(0.01, 0.3),
        rng.uniform(0.5, 9),
        rng.uniform(1, 40),
    )


def at_deadline(level, headroom, share, attempts):
    return level + headroom * (1 - math.exp(-share * attempts))


@pytest.mark.parametrize("seed", range(20))
def test_the_theorem_holds_for_any_weights_of_a_change(seed):
    """A change that makes attempt i f_i y seconds longer and leaves K x of its reward pays iff x > price * y."""
    rng = np.random.default_rng(seed)
    level, headroom, share, d, n = random_curve(rng)
    weights = rng.random(int(n))  # f_1 .. f_N; attempts after the last whole one are not changed
    kept = rng.uniform(0.1, 2.0)
    slope, u = headroom * share / d, share * n
    price = slope * math.exp(-u) * weights.sum() / kept
    for sign in (-1, 1):
        y = STEP
        x = price * y * (1 + sign * 0.01)
        attempts = n - y * weights.sum() / d  # the seconds that are gone
        after = at_deadline(level, headroom, share, attempts) + kept * x
        assert (after > at_deadline(level, headroom, share, n)) == (sign > 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_cases_of_the_theorem(seed):
    rng = np.random.default_rng(100 + seed)
    level, headroom, share, d, n = random_curve(rng)
    left, slope, fading = n * d, headroom * share / d, math.exp(-share * n)
    score = at_deadline(level, headroom, share, n)

    def longer(y):  # every attempt left takes y seconds more
        return at_deadline(level, headroom, share, left / (d + y))

    cost = -(longer(STEP) - longer(-STEP)) / (2 * STEP)
    assert cost == pytest.approx(slope * n * fading, rel=1e-5)  # horizon
    elasticity = share * n * headroom * fading / score
    grown = [math.log(at_deadline(level, headroom, share, n * math.exp(s))) for s in (-STEP, STEP)]
    assert elasticity == pytest.approx((grown[1] - grown[0]) / (2 * STEP), rel=1e-5)
    assert cost * level / score == pytest.approx(level / d * elasticity, rel=1e-5)
    assert 0 <= elasticity <= 1
    # one attempt, whose gain x raises the level at once: headroom falls, and with it what is still to be learnt
    gained = (score_with(level, headroom, share, n, STEP) - score) / STEP
    lost = -(at_deadline(level, headroom, share, n - STEP / d) - score) / STEP
    assert lost / gained == pytest.approx(slope, rel=1e-4)


def score_with(level, headroom, share, n, x):
    return at_deadline(level + x, headroom - x, share, n)


def test_a_choice_that_is_forgotten_late_is_one_for_all_of_the_time_left():
    attempts = np.linspace(0.1, 30, 50)
    np.testing.assert_allclose(1e6 * np.expm1(attempts / 1e6), attempts, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_prices_are_finite_never_negative_and_have_the_shape_of_the_problem(family):
    for number in range(10):
        problem = draw_problem(np.random.default_rng([7, number]), family)
        value, forecast = problem.horizon.optimal(problem.budget).value, DeadlineForecast.of(problem)
        for name, of in PRICES.items():
            price = of(problem, forecast, value)
            assert price.shape == value.shape, name
            assert np.isfinite(price).all(), name
            if family == "search" or not name.startswith("exact"):  # a kind of attempts may be worse than none
                assert (price >= -1e-12).all(), name
        rate = PRICES["rate"](problem, forecast, value)
        assert (PRICES["rate x elasticity"](problem, forecast, value) <= rate * (1 + 1e-9)).all()
        assert (PRICES["horizon"](problem, forecast, value)[0] == 0).all()


@pytest.mark.parametrize("number", range(5))
def test_the_horizon_of_the_laboratory_is_that_of_the_package(number):
    """rates.Horizon is told a mean reward that rises in a straight line: its fit is exact, and J lies in the middle."""
    problem = draw_problem(np.random.default_rng(number), "inertia")
    forecast, state = DeadlineForecast.of(problem), problem.start
    slope, d, left = forecast.slope[state], problem.mean_seconds[state], problem.budget / 2
    price = Horizon()
    for step in range(6):
        mean = problem.level[state] + slope * d * (step - 4)
        told = price.update([problem.best, 2 * mean - problem.best], [d, d], chains=2, deadline=6 * d + left)
    shorter = dataclasses.replace(problem, budget=1, mean_seconds=problem.mean_seconds / left)  # other units of time
    lab = PRICES["horizon"](shorter, DeadlineForecast.of(shorter), np.zeros((2, problem.level.size)))[1, state] / left
    assert told == pytest.approx(lab, rel=1e-9)


def test_the_greedy_rules_are_the_argmax_they_say():
    problem = draw_problem(np.random.default_rng(9), "search")
    horizon, value = problem.horizon, problem.horizon.optimal(problem.budget).value
    free = greedy(problem, np.zeros_like(value))
    assert (free == problem.reward.argmax(axis=1)).all()
    dear = greedy(problem, np.full_like(value, 1e6))
    assert (dear == horizon.seconds.argmin(axis=1)).all()
    assert greedy_in_values(problem, value).shape == value.shape
    length = max(1, round(float(problem.mean_seconds[0])))
    left = length + 3
    if left <= problem.budget:
        assert marginal(problem, value)[left, 0] == pytest.approx((value[left, 0] - value[3, 0]) / length)
    assert MEMORY > 0
