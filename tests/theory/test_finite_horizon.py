"""The solver of problems with a deadline, against the obvious recursion and against every rule there is."""

import itertools
from functools import cache

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.theory.finite_horizon import FiniteHorizon


def drawn(seed, states=4, actions=3, longest=5):
    rng = np.random.default_rng(seed)
    shape = (states, actions)
    return FiniteHorizon(
        seconds=rng.integers(1, longest + 1, shape),
        chance=rng.random(shape),
        success=rng.integers(0, states, shape),
        failure=rng.integers(0, states, shape),
        final=rng.random(states),
    )


def slow_value(horizon, left, state):
    """Bellman's equation, word for word."""

    @cache
    def value(left, state):
        if left == 0:
            return horizon.final[state]
        return max(of_action(left, state, action) for action in range(horizon.chance.shape[1]))

    def of_action(left, state, action):
        after = left - int(horizon.seconds[state, action])
        if after < 0:
            return horizon.final[state]
        chance = horizon.chance[state, action]
        good, bad = int(horizon.success[state, action]), int(horizon.failure[state, action])
        return chance * value(after, good) + (1 - chance) * value(after, bad)

    return value(left, state)


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_is_that_of_the_recursion(seed):
    horizon, budget = drawn(seed), 17
    value = horizon.optimal(budget).value
    expected = [[slow_value(horizon, left, state) for state in range(4)] for left in range(budget + 1)]
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_no_rule_is_better_and_the_optimal_actions_earn_the_optimum(seed):
    """Every rule of a problem with two states, two actions and a budget of three seconds: 2 ** 6 of them."""
    horizon = drawn(seed, states=2, actions=2, longest=2)
    value, action = horizon.optimal(3)
    np.testing.assert_allclose(horizon.value(action), value, rtol=0, atol=1e-15)
    found = []
    for choice in itertools.product(range(2), repeat=6):
        rule = np.vstack([[0, 0], np.array(choice).reshape(3, 2)])
        found.append(horizon.value(rule)[3])
    np.testing.assert_allclose(np.max(found, axis=0), value[3], rtol=0, atol=1e-12)


def test_a_rule_is_worth_the_mean_of_its_runs():
    """20,000 runs of a random rule: within four standard errors (false alarms: 6 in 100,000)."""
    horizon, budget = drawn(3), 20
    rng = np.random.default_rng(0)
    rule = rng.integers(0, 3, (budget + 1, 4))
    state, left = np.zeros(20_000, dtype=int), np.full(20_000, budget)
    running = np.ones(20_000, dtype=bool)
    while running.any():
        action = rule[left, state]
        after = left - horizon.seconds[state, action]
        running &= (left > 0) & (after >= 0)
        good = rng.random(20_000) < horizon.chance[state, action]
        new = np.where(good, horizon.success[state, action], horizon.failure[state, action])
        state, left = np.where(running, new, state), np.where(running, after, left)
    found = horizon.final[state]
    error = found.std() / np.sqrt(20_000)
    assert abs(found.mean() - horizon.value(rule)[budget, 0]) < 4 * error


def test_an_attempt_that_does_not_end_in_time_changes_nothing():
    horizon = FiniteHorizon(seconds=[[3]] * 2, chance=[[1.0]] * 2, success=[[1]] * 2, failure=[[0]] * 2, final=[0, 1])
    assert horizon.optimal(3).value[:, 0].tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": [[0]]}, "at least one second"),
        ({"seconds": [[1.5]]}, "whole numbers"),
        ({"chance": [[1.5]]}, r"\[0, 1\]"),
        ({"final": [float("nan")]}, "final is finite"),
        ({"final": [0.0, 1.0]}, "states x actions, and states"),
        ({"success": [[1]]}, "states are 0 to 0"),
        ({"failure": [[0, 0]]}, "shape of chance"),
    ],
)
def test_tables_that_are_no_problem_are_refused(change, words):
    tables = {"seconds": [[1]], "chance": [[0.5]], "success": [[0]], "failure": [[0]], "final": [0.0]}
    with pytest.raises(InputError, match=words):
        FiniteHorizon(**tables | change)


def test_rules_that_do_not_fit_are_refused():
    horizon = drawn(0)
    for rule in (np.zeros((3, 2), int), np.full((3, 4), 3), np.zeros((3, 4)), np.zeros((0, 4), int)):
        with pytest.raises(InputError, match="action"):
            horizon.value(rule)
    with pytest.raises(InputError, match="budget"):
        horizon.optimal(-1)
