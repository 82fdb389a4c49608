"""Finite semi-Markov decision processes, against finite differences, brute force, a linear program and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from rewardrate.errors import InputError
from rewardrate.theory import SMDP, optimal_rate, policy_rate
from rewardrate.theory.instances import draw_smdp
from rewardrate.theory.npg import softmax
from rewardrate.theory.smdp import recurrent_classes

seeds = st.integers(0, 10**6)


@given(seeds)
def test_the_gradient_agrees_with_finite_differences_to_1e_6(seed):
    rng = np.random.default_rng(seed)
    smdp = draw_smdp(rng)
    theta = rng.normal(size=smdp.reward.shape)
    exact = smdp.gradient(theta)
    for place in np.ndindex(theta.shape):
        step = np.zeros(theta.shape)
        step[place] = 1e-5
        difference = (smdp.rate(softmax(theta + step)) - smdp.rate(softmax(theta - step))) / 2e-5
        assert abs(difference - exact[place]) < 1e-6


@given(seeds)
def test_values_satisfy_their_bellman_equations(seed):
    rng = np.random.default_rng(seed)
    smdp = draw_smdp(rng)
    policy = rng.dirichlet(np.ones(smdp.actions), smdp.states)
    rate, (v, q), d = smdp.rate(policy), smdp.values(policy), smdp.stationary(policy)
    assert q == pytest.approx(smdp.reward - rate * smdp.seconds + smdp.transition @ v, abs=1e-9)
    assert v == pytest.approx((policy * q).sum(axis=1), abs=1e-9)
    assert d @ v == pytest.approx(0, abs=1e-9)
    assert d == pytest.approx(d @ np.einsum("sa,sat->st", policy, smdp.transition), abs=1e-12)


@given(seeds)
def test_both_methods_and_a_linear_program_find_the_best_deterministic_policy(seed):
    smdp = draw_smdp(np.random.default_rng(seed), states=3)
    every = itertools.product(range(smdp.actions), repeat=smdp.states)
    best = max(smdp.rate(np.array(policy)) for policy in every)
    found = smdp.optimal()
    assert found.rate == pytest.approx(best, abs=1e-10)
    assert smdp.rate(found.policy) == pytest.approx(best, abs=1e-10)
    assert smdp.optimal("value").rate == pytest.approx(best, abs=1e-9)
    assert linear_program(smdp) == pytest.approx(best, abs=1e-7)


def linear_program(smdp):
    """Maximise reward of the state-action frequencies x per second: balance in every state, sum(seconds x) = 1."""
    balance = np.repeat(np.eye(smdp.states), smdp.actions, axis=1) - smdp.transition.reshape(-1, smdp.states).T
    rows = np.vstack([balance, smdp.seconds.ravel()])
    solution = linprog(-smdp.reward.ravel(), A_eq=rows, b_eq=np.append(np.zeros(smdp.states), 1.0))
    return -solution.fun


def test_a_bandit_is_an_smdp_whose_next_state_does_not_depend_on_anything():
    rng = np.random.default_rng(0)
    reward, seconds, p = rng.uniform(0, 1, (3, 4)), rng.uniform(1, 5, (3, 4)), rng.dirichlet(np.ones(3))
    smdp = SMDP(np.broadcast_to(p, (3, 4, 3)), reward, seconds)
    policy = rng.dirichlet(np.ones(4), 3)
    assert smdp.rate(policy) == pytest.approx(policy_rate(reward, seconds, p, policy))
    assert smdp.optimal().rate == pytest.approx(optimal_rate(reward, seconds, p), abs=1e-12)


def test_the_rate_is_what_a_long_simulation_earns():
    """200,000 transitions; tolerance 2 %, about six standard errors."""
    rng = np.random.default_rng(1)
    smdp = SMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.uniform(0, 1, (3, 2)), rng.uniform(0.5, 4, (3, 2)))
    policy = rng.dirichlet(np.ones(2), 3)
    uniform = rng.random((200_000, 2))
    cumulative, next_state = policy.cumsum(axis=1), smdp.transition.cumsum(axis=2)
    state, earned, spent = 0, 0.0, 0.0
    for one, two in uniform:
        action = int(np.searchsorted(cumulative[state], one))
        earned += smdp.reward[state, action]
        spent += smdp.seconds[state, action]
        state = min(int(np.searchsorted(next_state[state, action], two)), 2)
    assert earned / spent == pytest.approx(smdp.rate(policy), rel=0.02)


def test_periodic_and_transient_chains_are_no_obstacle():
    swap = [[[0, 1, 0]], [[1, 0, 0]], [[0.5, 0.5, 0]]]
    smdp = SMDP(swap, [[1.0], [3.0], [100.0]], [[1.0], [1.0], [1.0]])
    assert smdp.rate([0, 0, 0]) == pytest.approx(2.0)
    assert smdp.stationary([0, 0, 0]).tolist() == [0.5, 0.5, 0.0]
    assert smdp.optimal("value").rate == pytest.approx(2.0)


def test_two_absorbing_states_have_no_single_rate():
    """The paper asks for bounded rewards and times alone; a unique stationary distribution is a further condition."""
    smdp = SMDP([[[1, 0]], [[0, 1]]], [[1.0], [2.0]], [[1.0], [1.0]])
    with pytest.raises(InputError, match="2 recurrent classes"):
        smdp.rate([0, 0])
    with pytest.raises(InputError, match="it depends on where one starts"):
        smdp.optimal()


def test_staying_may_be_possible_in_several_states_as_long_as_the_best_one_can_be_reached():
    """Stay or move on: deterministic policies with two recurrent classes exist, the optimum is still well defined."""
    stay_or_go = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    smdp = SMDP(stay_or_go, [[1.0, 0.0], [2.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]])
    found = smdp.optimal()
    assert found.rate == pytest.approx(2.0, abs=1e-9)
    assert found.policy.tolist() == [1, 0]


def test_stiff_times_do_not_hide_a_better_policy():
    transition = [[[0.8, 0.2], [0.1, 0.9]], [[0.7, 0.3], [0.9, 0.1]]]
    smdp = SMDP(transition, [[0.65, 0.66], [0.38, 0.0]], [[1e-5, 1.6e-6], [1.8e-5, 1e6]])
    assert smdp.optimal().policy.tolist() == [0, 0]
    assert smdp.optimal().rate == pytest.approx(50094.3396, rel=1e-8)


def deterministic(following, reward, seconds):
    return SMDP(np.eye(len(following))[np.array(following)], reward, seconds)


def test_a_connected_process_has_an_optimum_even_if_some_policies_fall_apart():
    smdp = deterministic([[0, 1], [2, 0], [1, 2]], [[6, 5], [7, 5], [9, 7]], [[0.01, 0.01], [10, 100], [0.01, 10]])
    found = smdp.optimal()
    assert found.rate == pytest.approx(600.0)
    assert smdp.rate(found.policy) == pytest.approx(600.0)


@given(seeds)
def test_connected_deterministic_processes_are_solved_by_their_best_cycle(seed):
    """Every simple cycle has a rate; the best one is the optimum, since it can be reached from everywhere."""
    rng = np.random.default_rng(seed)
    states, actions = 4, 2
    following = rng.integers(0, states, (states, actions))
    following[:, 0] = (np.arange(states) + 1) % states  # a ring: connected
    smdp = deterministic(following, rng.uniform(0, 1, (states, actions)), 10 ** rng.uniform(-2, 2, (states, actions)))
    best = 0.0
    for choice in itertools.product(range(actions), repeat=states):
        for start in range(states):
            path, state = [], start
            while state not in path:
                path.append(state)
                state = following[state, choice[state]]
            cycle = path[path.index(state) :]
            earned, spent = (sum(table[s, choice[s]] for s in cycle) for table in (smdp.reward, smdp.seconds))
            best = max(best, earned / spent)
    assert smdp.optimal().rate == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("coupling", [1e-3, 1e-8, 1e-12, 1e-16, 1e-30])
def test_chains_that_hardly_mix_keep_their_digits(coupling):
    smdp = SMDP([[[1 - 3 * coupling, 3 * coupling]], [[coupling, 1 - coupling]]], [[1.0], [0.0]], [[1.0], [1.0]])
    assert smdp.rate([0, 0]) == pytest.approx(0.25, rel=1e-12)


def test_value_iteration_says_when_it_did_not_converge_and_centres_its_values():
    slow = SMDP([[[1 - 1e-9, 1e-9]], [[1e-9, 1 - 1e-9]]], [[1.0], [0.0]], [[1.0], [1.0]])
    with pytest.raises(InputError, match="sweeps were not enough"):
        slow.optimal("value")
    rng = np.random.default_rng(3)
    smdp = draw_smdp(rng)
    found = smdp.optimal("value")
    assert smdp.stationary(found.policy) @ found.values.state == pytest.approx(0.0, abs=1e-9)


def test_recurrent_classes_are_where_the_chain_ends_up():
    assert recurrent_classes(np.array([[0.5, 0.5], [0.0, 1.0]])) == [[1]]
    assert recurrent_classes(np.eye(2)) == [[0], [1]]


@pytest.mark.parametrize(
    ("transition", "words"),
    [
        ([[[1.0]]], "it must be 2 x 1 x 2"),
        ([[[0.5, 0.4]], [[0, 1]]], r"transition\[0, 0\]"),
        ([[[1.5, -0.5]], [[0, 1]]], r"transition\[0, 0, 1\]"),
    ],
)
def test_a_bad_kernel_is_refused(transition, words):
    with pytest.raises(InputError, match=words):
        SMDP(transition, [[1.0], [1.0]], [[1.0], [1.0]])


def test_a_bad_method_or_logits_are_refused():
    smdp = SMDP([[[1.0]]], [[1.0]], [[2.0]])
    with pytest.raises(InputError, match="did you mean 'policy'"):
        smdp.optimal("polcy")
    with pytest.raises(InputError, match="theta"):
        smdp.gradient([[1.0, 2.0]])
    assert smdp.gradient([[0.3]]).tolist() == [[0.0]]
