"""Rates, greedy policies and the optimal rate, against enumeration in exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exact
from rewardrate.errors import InputError
from rewardrate.theory import F, greedy_policy, margin, optimal_rate, policy_rate, relative_value


@given(exact.problems(contexts=4))
def test_the_optimal_rate_is_the_best_of_all_policies_to_1e_12(problem):
    assert optimal_rate(*exact.floats(problem)) == pytest.approx(float(exact.best(problem)), rel=1e-12, abs=1e-14)


@given(exact.problems(reward=st.integers(-6, 6)))
def test_rewards_may_be_negative(problem):
    assert optimal_rate(*exact.floats(problem)) == pytest.approx(float(exact.best(problem)), rel=1e-12, abs=1e-14)


@given(st.floats(-99, 99), st.floats(-99, 99))
def test_units_of_any_size_keep_twelve_digits(reward_power, seconds_power):
    power = reward_power - seconds_power
    reward, seconds = np.array([[1.0, 0.8], [0.3, 0.9]]), np.array([[3.0, 1.0], [1.0, 2.0]])
    scaled = optimal_rate(reward * 10.0**reward_power, seconds * 10.0**seconds_power)
    assert scaled == pytest.approx(1.7 / 3 * 10.0**power, rel=1e-9)


def test_the_residual_at_the_root_is_rounding():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tables = rng.uniform(0, 1, (8, 10)), rng.uniform(0.5, 5, (8, 10)), rng.dirichlet(np.ones(8))
        assert abs(F(*tables, optimal_rate(*tables))) < 1e-15


def test_contexts_that_never_come_do_not_count():
    assert optimal_rate([[1.0], [100.0]], [[2.0], [1.0]], [1.0, 0.0]) == 0.5


def test_equal_ratios_are_the_rate():
    assert optimal_rate([[1.0, 2.0]], [[2.0, 4.0]]) == 0.5


def test_numbers_whose_products_do_not_fit_are_refused():
    for reward, seconds in [([[1e300, 1.0]], [[1.0, 1.0]]), ([[1.0, 1.0]], [[1e-300, 1.0]]), ([[1e-320]], [[1.0]])]:
        with pytest.raises(InputError, match="rescale the table"):
            optimal_rate(reward, seconds)


@given(exact.problems(), st.fractions(-2, 8, max_denominator=6))
def test_greedy_policies_are_greedy_however_ties_break(problem, rho):
    reward, seconds, _ = exact.floats(problem)
    allowed = exact.greedy(problem, rho)
    assert tuple(greedy_policy(reward, seconds, float(rho), ties=np.random.default_rng(0))) in allowed


def test_ties_go_to_the_first_the_last_or_by_lot():
    reward, seconds = [[1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]]
    assert greedy_policy(reward, seconds, 0.5).tolist() == [0]
    assert greedy_policy(reward, seconds, 0.5, ties="last").tolist() == [1]
    rng = np.random.default_rng(0)
    assert {int(greedy_policy(reward, seconds, 0.5, ties=rng)[0]) for _ in range(50)} == {0, 1}
    with pytest.raises(InputError, match="ties"):
        greedy_policy(reward, seconds, 0.5, ties="random")


@given(exact.problems(), st.fractions(-2, 8, max_denominator=6))
def test_margin_is_the_lead_of_the_best_action(problem, rho):
    ours, theirs = margin(*exact.floats(problem)[:2], float(rho)), exact.margin(problem, rho)
    assert math.isinf(ours) if theirs is None else ours == pytest.approx(float(theirs), abs=1e-12)


def test_a_stochastic_policy_mixes_rewards_and_seconds_not_rates():
    assert policy_rate([[1.0, 1.5]], [[1.0, 5.0]], None, [[0.5, 0.5]]) == pytest.approx(2.5 / 6)
    assert policy_rate([[1.0, 1.5]], [[1.0, 5.0]], None, [0]) == 1.0


def test_relative_value_is_reward_minus_rate_times_seconds():
    assert relative_value([[1.0, 2.0]], [[3.0, 4.0]], 0.5).tolist() == [[-0.5, 0.0]]


def test_twelve_digits_also_at_kinks_and_beside_huge_ratios():
    near = optimal_rate([[0.1562, 0.1562], [272001.911, 0.19739999992641472]], [[0.6, 0.6], [1000007, 0.7]])
    assert near == pytest.approx(0.272, rel=1e-12)
    reward = [[4, 71, 27, 80], [1, 20, 87, 75], [26, 62, 97, 33]]
    seconds = [[1e-15] * 4, [400, 5, 200, 800], [6, 500, 6000, 1000]]
    tables = (
        [[Fraction(r) for r in row] for row in reward],
        [[Fraction(s) for s in row] for row in seconds],
        [Fraction(1, 3)] * 3,
    )
    assert optimal_rate(reward, seconds) == pytest.approx(float(exact.best(tables)), rel=1e-12)


def test_ties_are_judged_by_the_numbers_that_are_compared_not_by_the_largest_in_the_table():
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert greedy_policy([[1e6, 0.0], [1e-7, 0.0]], np.ones((2, 2)), 0.0, ties=rng).tolist() == [0, 0]
        assert greedy_policy([[1.0, 0.9, 0.0]], [[1.0, 1.0, 1e12]], 0.95, ties=rng).tolist() == [0]
