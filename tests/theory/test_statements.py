"""The paper's lemmas and theorems: in floats over random problems, and in exact rationals with nothing allowed."""

import itertools
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exact
from rewardrate.theory import npg
from rewardrate.theory.check import CheckConfig, cases
from rewardrate.theory.instances import FAMILIES, draw_instance
from rewardrate.theory.statements import STATEMENTS, Case

rhos = st.fractions(-2, 8, max_denominator=6)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 2**32))
def test_no_problem_violates_a_statement(statement, family, seed):
    rng = np.random.default_rng(seed)
    slack = statement.check(Case(draw_instance(rng, family, 4, 4), rng, steps=40))
    assert slack is None or slack >= -statement.allowance


@given(exact.problems(), rhos, rhos)
def test_lemma_1_exactly(problem, rho, other):
    if rho != other:
        low, high = sorted((rho, other))
        slope = (exact.F(problem, low) - exact.F(problem, high)) / (high - low)
        delta_min, delta_max, _ = exact.limits(problem)
        assert delta_min <= slope <= delta_max


@given(exact.problems(), st.data())
def test_lemma_2_exactly(problem, data):
    best = exact.best(problem)
    assert exact.F(problem, best) == 0
    reward, seconds, p = problem
    earned = spent = Q(0)
    for weight, rewards, times in zip(p, reward, seconds, strict=True):  # any stochastic policy
        shares = [Q(data.draw(st.integers(0, 3))) for _ in rewards]
        shares[0] += 1
        earned += weight * sum(s * r for s, r in zip(shares, rewards, strict=True)) / sum(shares)
        spent += weight * sum(s * t for s, t in zip(shares, times, strict=True)) / sum(shares)
    assert earned / spent <= best


@given(exact.problems(), st.fractions(0, 3, max_denominator=6))
def test_lemma_3_exactly_under_every_tie_breaking(problem, below):
    best, (delta_min, delta_max, _) = exact.best(problem), exact.limits(problem)
    rho, chi = best - below, 1 - delta_min / delta_max
    for policy in exact.greedy(problem, rho):
        rate = exact.rate(problem, policy)
        assert rho <= rate <= best
        assert best - rate <= chi * (best - rho)


@given(exact.problems(), rhos, rhos)
def test_lemma_4_exactly_under_every_tie_breaking(problem, rho, other):
    lead = exact.margin(problem, other)
    if lead is None:
        return
    values, reach = exact.q(problem, rho), abs(rho - other) * exact.spread(problem)
    for policy in exact.greedy(problem, other):
        for row, chosen in zip(values, policy, strict=True):
            assert all(row[chosen] - value >= lead - reach for a, value in enumerate(row) if a != chosen)
    assert abs(exact.margin(problem, rho) - lead) <= reach
    if reach < lead:
        assert exact.greedy(problem, rho) == exact.greedy(problem, other)


@given(exact.problems(contexts=2), st.sampled_from([Q(0), Q(1, 10), Q(1, 2), Q(1)]), st.fractions(0, 1), st.data())
def test_theorem_1_exactly_for_any_choice_in_the_band_and_any_tie_breaking(problem, gamma, share, data):
    best, (delta_min, delta_max, r_max) = exact.best(problem), exact.limits(problem)
    top, ratio, chi = r_max / delta_min, delta_max / delta_min, 1 - delta_min / delta_max
    rho = share * top
    previous = None
    for k in range(2, 9):
        policy = data.draw(st.sampled_from(exact.greedy(problem, rho)))
        greedy = exact.rate(problem, policy)
        end = data.draw(st.sampled_from([1 / (1 + gamma), Q(1), 1 + gamma]))
        rho = min(max(greedy * end, Q(0)), top)
        low = (1 - ratio * gamma / (1 + gamma)) * best - (chi / (1 + gamma)) ** (k - 2) * top
        assert low <= rho <= (1 + gamma) * best
        if gamma == 0:
            assert previous is None or previous <= rho <= best
            previous = rho


@given(exact.problems(contexts=2), st.fractions(0, 1), st.data())
def test_theorem_1_exactly_reaches_the_optimum_in_as_many_steps_as_there_are_policies(problem, share, data):
    delta_min, _, r_max = exact.limits(problem)
    rho = share * r_max / delta_min
    for _ in range(sum(1 for _ in exact.policies(problem)) + 1):
        rho = exact.rate(problem, data.draw(st.sampled_from(exact.greedy(problem, rho))))
    assert rho == exact.best(problem)


@given(exact.problems(contexts=2), st.fractions(0, 1), st.data())
def test_theorem_2_exactly_the_running_average_rises_and_contracts(problem, share, data):
    """e_(k+1) <= (1 - (1 - chi) / (k + 1)) e_k, the recursion behind the bound."""
    best, (delta_min, delta_max, _) = exact.best(problem), exact.limits(problem)
    average, c = share * best, delta_min / delta_max
    for k in range(1, 8):
        rate = exact.rate(problem, data.draw(st.sampled_from(exact.greedy(problem, average))))
        new = (k * average + rate) / (k + 1)
        assert average <= new <= best
        assert best - new <= (1 - c / (k + 1)) * (best - average)
        average = new


def test_the_iteration_is_really_run_step_by_step():
    """The Boltzmann form is a claim about the recursion, so the recursion must not use it."""
    rates = [0.3, 0.1, 0.7]
    theta = np.zeros((1, 2))
    reward, seconds = np.array([[1.0, 0.2]]), np.array([[2.0, 1.0]])
    for rate, step in zip(rates, npg(reward, seconds, learning_rate=0.5, rates=rates), strict=True):
        pi = np.exp(theta) / np.exp(theta).sum()
        q = reward - rate * seconds
        theta = theta + 0.5 * (q - (pi * q).sum())
        assert step.theta == pytest.approx(theta, abs=1e-14)


def test_every_statement_is_tried_on_most_problems():
    tried = {statement.name: 0 for statement in STATEMENTS}
    for case, statement in itertools.product(cases(CheckConfig(instances=48)), STATEMENTS):
        tried[statement.name] += statement.check(case) is not None
    assert min(tried.values()) >= 24
