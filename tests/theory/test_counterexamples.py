"""Where a statement of the paper needs a condition, or promises less than is true: each example is kept here.

The write-up is in docs/theory.md.
"""

import math

import numpy as np
import pytest

from rewardrate.theory import bounds, dinkelbach, greedy_policy, npg, optimal_rate, policy_rate


def test_delta_spr_can_be_zero_although_not_all_times_are_equal():
    """The footnote excludes delta_spr = 0 because all (context, action) times would be equal. They need not be."""
    reward, seconds = [[1.0, 0.5], [2.0, 0.5]], [[1.0, 1.0], [3.0, 3.0]]
    b = bounds(reward, seconds)
    assert b.delta_spr == 0
    assert b.delta_max > b.delta_min
    assert b.epsilon_bar == math.inf  # the right reading: any rate has the optimal greedy policy
    for rate in (-5.0, 0.0, 100.0):
        assert greedy_policy(reward, seconds, rate).tolist() == [0, 0]


def test_equal_times_need_chi_zero_which_the_main_text_excludes():
    """Theorem 1's main text has chi in (0, 1); with equal times chi = 0 and the bound holds with 0^0 = 1."""
    reward, seconds = [[1.0, 0.5]], [[2.0, 2.0]]
    b = bounds(reward, seconds)
    assert (b.chi, b.R) == (0.0, 1.0)
    assert b.interval(2)[0] == pytest.approx(b.rho_star - b.rho_max)
    assert b.interval(3)[0] == b.rho_star == list(dinkelbach(reward, seconds))[-1]


def test_k0_as_written_can_be_zero_where_there_is_no_running_average_yet():
    reward, seconds = [[1.0, 0.2]], [[1.0, 2.0]]
    b = bounds(reward, seconds)
    as_written = math.ceil((math.exp(1 - b.chi) * (b.rho_star - b.rho_star) / b.epsilon_bar) ** (1 / (1 - b.chi)))
    assert as_written == 0
    assert b.k0(b.rho_star) == 1


def test_without_a_gap_at_the_optimum_the_policy_never_becomes_certain():
    """Assumption A2 is needed: two actions tied at rho* share the probability for ever, though the rate converges."""
    reward, seconds = [[1.0, 2.0, 0.1]], [[1.0, 2.0, 1.0]]
    b = bounds(reward, seconds)
    assert (b.Delta_star, b.k0()) == (0.0, math.inf)
    last = list(npg(reward, seconds, learning_rate=1.0, start=1.0, steps=200))[-1]
    assert last.policy[0].tolist() == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)
    assert policy_rate(reward, seconds, None, last.policy) == pytest.approx(b.rho_star)


def test_rewards_below_zero_empty_the_band_of_theorem_1():
    """r_min >= 0 is needed: around a negative rate the band is empty, and clipping leaves the bound."""
    reward, seconds, gamma = [[-1.0, -2.0]], [[1.0, 1.0]], 0.1
    rate = policy_rate(reward, seconds, None, [0])
    assert rate / (1 + gamma) > (1 + gamma) * rate
    assert max(rate, 0.0) > (1 + gamma) * optimal_rate(reward, seconds)


def test_with_r_min_zero_and_nothing_to_earn_everything_is_zero_and_holds():
    reward, seconds = [[0.0, 0.0]], [[1.0, 3.0]]
    b = bounds(reward, seconds)
    assert (b.rho_star, b.rho_max, b.interval(2, 0.5)) == (0.0, 0.0, (0.0, 0.0))
    assert list(dinkelbach(reward, seconds)) == [0.0, 0.0] or list(dinkelbach(reward, seconds)) == [0.0]
    assert b.Delta_star == 0.0  # but A2 fails: theorem 2 says nothing


def test_started_a_little_above_the_optimal_rate_the_error_grows_five_hundredfold():
    """Theorem 2 needs rho_1 <= rho*. At 1.001 rho* a quick worthless action looks best, and the average collapses: the
    error after one step is far above the bound that a start as far *below* would have. Over-pricing time is the
    dangerous side, and a 95th percentile over-prices by design.
    """
    reward, seconds = [[100.0, 0.0]], [[100.0, 0.05]]
    b = bounds(reward, seconds)
    start = 1.001 * b.rho_star
    second = list(npg(reward, seconds, learning_rate=1.0, start=start, steps=2))[-1]
    error = abs(b.rho_star - second.mean_rate)
    bound = (start - b.rho_star) * math.exp(1 - b.chi) * 3 ** -(1 - b.chi)
    assert error / bound == pytest.approx(499.5, rel=1e-3)
    mirrored = list(npg(reward, seconds, learning_rate=1.0, start=0.999 * b.rho_star, steps=2))[-1]
    assert abs(b.rho_star - mirrored.mean_rate) <= bound


def test_the_error_ends_up_falling_like_one_over_k_whatever_chi_is():
    """Better than O(k^-(1-chi)): once the greedy policy is optimal every rate is rho*, so k * error is fixed."""
    reward, seconds = [[1.0, 60.0, 30.0]], [[1.0, 100.0, 40.0]]
    b = bounds(reward, seconds)
    assert 1 - b.chi == pytest.approx(0.01)
    errors = np.array([b.rho_star - step.mean_rate for step in npg(reward, seconds, learning_rate=1.0, steps=3000)])
    scaled = errors * np.arange(1, 3001)
    assert np.ptp(scaled[300:]) < 1e-9 * scaled[-1]
    assert errors[-1] < 0.03 * b.error(3000)


def test_the_tail_ends_up_with_the_whole_gap_in_its_exponent_not_half():
    """Theorem 2's exponent eta Delta* k / 2 is half of the true one: log(1 - pi) falls by eta Delta* per step."""
    reward, seconds = [[1.0, 1.2, 0.3]], [[1.0, 2.0, 1.5]]
    b, eta = bounds(reward, seconds), 0.5
    run = list(npg(reward, seconds, learning_rate=eta, steps=120))
    log_missing = np.log([step.policy[0, 1:].sum() for step in run])
    slope = (log_missing[110] - log_missing[60]) / 50
    assert slope == pytest.approx(-eta * b.Delta_star, rel=1e-3)


def test_contexts_that_never_come_still_set_the_gap():
    """min_x runs over all contexts: one of probability 0 can shrink Delta* and delay k0, though it cannot matter."""
    with_ghost = bounds([[1.0, 0.2], [1.0, 0.999]], [[1.0, 2.0], [1.0, 1.0]], [1.0, 0.0])
    without = bounds([[1.0, 0.2]], [[1.0, 2.0]])
    assert with_ghost.rho_star == without.rho_star
    assert with_ghost.Delta_star < 0.01 * without.Delta_star


def test_prices_that_stay_too_low_cost_as_much_as_prices_that_stay_too_high():
    """Always at the low end of the band: the rate settles at rho* / (1 + R gamma), far below (1 - gamma) rho*."""
    gamma, ratio = 0.05, 100.0
    low = 1 / (1 + ratio * gamma)
    reward, seconds = [[1 + low * (ratio - 1), 1.0]], [[ratio, 1.0]]  # tied at `low`; the slow one comes first
    path = list(dinkelbach(reward, seconds, gamma=gamma, start=low, choose=lambda k, g, bottom, top: bottom, steps=50))
    assert path[-1] == pytest.approx(low, rel=1e-9)
    assert bounds(reward, seconds).rho_star == 1.0


def test_the_lower_end_of_theorem_1_says_nothing_once_gamma_reaches_one_over_r_minus_one():
    b = bounds([[1.0, 2.0]], [[1.0, 5.0]])
    assert b.interval(100, 1 / (b.R - 1))[0] == pytest.approx(0.0, abs=1e-12)


def test_contexts_that_never_come_enter_every_constant():
    ghost, without = (
        bounds([[1.0, 0.2], [9.0, 9.0]], [[1.0, 2.0], [0.1, 50.0]], [1.0, 0.0]),
        bounds([[1.0, 0.2]], [[1.0, 2.0]]),
    )
    assert ghost.rho_star == without.rho_star
    assert ghost.R > without.R
    assert ghost.rho_max > without.rho_max
    assert ghost.delta_spr > without.delta_spr


def test_a_step_that_contracts_by_no_more_than_chi_lands_on_the_optimal_policy_next():
    """F is convex: lemma 3 is met only where the next greedy policy is already optimal, so Dinkelbach beats chi^k."""
    reward, seconds = [[1.0 + 0.25 * 3.0, 1.0]], [[4.0, 1.0]]  # tied at 0.25; the quick one earns 1 per second
    b = bounds(reward, seconds)
    path = list(dinkelbach(reward, seconds, start=0.25))
    assert b.rho_star - path[1] == pytest.approx(b.chi * (b.rho_star - 0.25))
    assert path[2] == b.rho_star


def test_k0_is_far_too_late_when_times_differ_much():
    reward, seconds, p = [[1.0, 0.8, 0.1], [0.3, 0.9, 0.5]], [[3.0, 1.0, 0.5], [1.0, 2.0, 1.5]], [0.4, 0.6]
    b = bounds(reward, seconds, p)
    last = list(npg(reward, seconds, p, learning_rate=2.0, steps=500))[-1]
    assert last.policy.max(axis=1).min() > 0.999
    assert b.k0() > 1e10
