"""The worlds of the study: design, closed-form means, optimal rate, policies."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from rewardrate.bandits.world import (
    FAMILIES,
    World,
    bisect_rate,
    floored_lognormal_mean,
    rectified_normal_mean,
)
from rewardrate.errors import InputError
from rewardrate.theory import optimal_rate, policy_rate

STUDY = [(arms, 4) for arms in (5, 10, 20, 30)] + [
    (arms, contexts) for contexts in (8, 16, 32, 64) for arms in (70, 100, 130, 160)
]


def test_the_marginal_context_is_the_papers_arm_table():
    world = World("E1", 10, 4)
    pairs = list(zip(world.mean_reward[2, :4], world.mean_seconds[2, :4], strict=True))
    assert pairs == [(0.5, 1.0), (0.57, 1.2), (0.9, 3.0), (0.21, 0.6)]
    rates = (world.mean_reward / world.mean_seconds)[2]
    assert rates[:4] == pytest.approx([0.5, 0.475, 0.3, 0.35])


def test_filler_arms_have_evenly_falling_rates_and_times_between_the_bounds():
    world = World("E2", 10, 4)
    rates = (world.mean_reward / world.mean_seconds)[2, 4:]
    assert rates == pytest.approx([0.42 - j / 5 * 0.24 for j in range(6)])
    assert ((world.mean_seconds[:, 4:] >= 0.7) & (world.mean_seconds[:, 4:] <= 2.0)).all()
    assert len(set(world.mean_seconds[0, 4:])) == 6
    assert (World("E1", 5, 4).mean_reward / World("E1", 5, 4).mean_seconds)[2, 4] == pytest.approx(0.42)


def test_a_context_scales_rewards_and_leaves_times_alone():
    world = World("E3", 8, 8)
    reward, seconds = world.mean_reward, world.mean_seconds
    assert reward[0] == pytest.approx(1.5 * reward[2])
    assert reward[3] == pytest.approx(0.32 * reward[2])
    for i, x in enumerate(range(4, 8)):
        assert reward[x] == pytest.approx((1.35 - 0.93 * (i + 0.5) / 4) * reward[2])
        assert (seconds[x] == seconds[2]).all()


def test_coupling_replaces_the_designed_arms_and_keeps_the_marginal_fillers():
    world = World("E1", 9, 5)
    assert world.mean_reward[1, :4].tolist() == [1.8, 1.0, 1.6, 0.2]
    assert world.mean_seconds[1, :4].tolist() == [2.0, 1.0, 3.0, 0.6]
    assert (world.mean_reward[1, 4:] == world.mean_reward[2, 4:]).all()


def test_tables_depend_on_the_shape_alone_and_are_copies():
    one, two = World("E1", 12, 6), World("E4", 12, 6)
    assert (one.mean_reward == two.mean_reward).all()
    one.mean_reward[0, 0] = 9.0
    one.true_seconds[0, 0] = 9.0
    assert one.mean_reward[0, 0] == 0.75
    assert one.true_seconds[0, 0] < 2
    assert one.mean_reward.shape == (6, 12)
    assert one.true_reward.shape == (6, 13)


@pytest.mark.parametrize(("mean", "spread", "floor"), [(0.07, 0.2, 0.0), (0.6, 0.09, 0.5), (3.0, 0.45, 0.5)])
def test_the_mean_of_a_rectified_normal_is_the_integral(mean, spread, floor):
    normal = stats.norm(mean, spread)
    exact = floor * normal.cdf(floor) + integrate.quad(lambda y: y * normal.pdf(y), floor, mean + 12 * spread)[0]
    assert rectified_normal_mean(np.array(mean), np.array(spread), floor) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("mean", [0.6, 1.0, 2.0, 3.0])
def test_the_mean_of_a_floored_lognormal_is_the_integral(mean):
    log_mean = math.log(mean) - 0.125

    def density(z):
        return max(math.exp(log_mean + 0.5 * z), 0.5) * stats.norm.pdf(z)

    edge = (math.log(0.5) - log_mean) / 0.5
    exact = integrate.quad(density, -12, edge)[0] + integrate.quad(density, edge, 12)[0]
    assert floored_lognormal_mean(np.array(mean), 0.5) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_true_means_stay_close_to_the_design_and_skip_is_as_it_is(family):
    world = World(family, 10, 4)
    assert (world.true_reward[:, :-1] >= world.mean_reward - 1e-12).all()
    assert (world.true_seconds[:, :-1] >= world.mean_seconds - 1e-12).all()
    assert (world.true_reward[:, -1] == 0).all()
    assert (world.true_seconds[:, -1] == 0.35).all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("arms", "contexts"), STUDY)
def test_the_optimal_rate_is_a_root_to_1e15_and_below_the_coupling_limit(family, arms, contexts):
    world = World(family, arms, contexts)
    assert abs(world.residual) < 1e-15
    assert world.optimal_rate == pytest.approx(optimal_rate(world.true_reward, world.true_seconds), rel=1e-15)
    assert world.optimal_rate < 0.8


def test_the_optimal_rate_of_a_table_by_hand():
    # One context, two actions: rates 0.5 and 0.4; the better one is 0.5, exactly.
    assert bisect_rate(np.array([[0.5, 0.8]]), np.array([[1.0, 2.0]])) == 0.5
    # Two contexts: (1, 1) forced in the first; 1.8 in 2.0 or 1.0 in 1.0 in the second: 2.8 / 3 against 2 / 2.
    assert bisect_rate(np.array([[1.0, 1.0], [1.8, 1.0]]), np.array([[1.0, 1.0], [2.0, 1.0]])) == pytest.approx(1.0)
    # With a poor first context (0, 0.5) the slow arm wins: 1.8 / 2.5 = 0.72 against 1 / 1.5.
    assert bisect_rate(np.array([[0.0, 0.0], [1.8, 1.0]]), np.array([[0.5, 0.5], [2.0, 1.0]])) == pytest.approx(0.72)


@pytest.mark.parametrize("family", FAMILIES)
def test_rate_greedy_takes_the_fast_arm_in_coupling_and_is_beaten(family):
    world = World(family, 10, 4)
    assert world.greedy_policy()[1] == 0
    assert world.rate_greedy_policy()[1] == 1
    assert world.rate(world.rate_greedy_policy()) < world.rate(world.greedy_policy()) - 0.02
    assert world.rate(world.greedy_policy()) == pytest.approx(world.optimal_rate, rel=1e-14)
    assert world.greedy_policy()[3] == 10, "SKIP is optimal in the poor context"


def test_greed_for_reward_takes_the_trap():
    world = World("E1", 10, 4)
    assert world.greedy_policy(0.0)[2] == 2
    reward, seconds = world.true_reward, world.true_seconds
    assert world.rate(world.greedy_policy(0.0)) == policy_rate(reward, seconds, None, world.greedy_policy(0.0))


def test_a_filler_arm_is_optimal_in_some_large_worlds():
    """The paper says it never is; by rate that is so, by relative value (long, rich) it is not."""
    shapes = [(4, arms) for arms in (5, 10, 20, 30)]
    shapes += [(contexts, arms) for contexts in (8, 16, 32, 64) for arms in (70, 100, 130, 160)]
    found = set()
    for contexts, arms in shapes:
        for family in ("E1", "E2", "E3", "E4"):
            policy = World(family, arms, contexts).greedy_policy()
            if ((policy >= 4) & (policy < arms)).any():
                found.add((contexts, arms, family))
    rich = {(64, 160, family) for family in ("E1", "E2", "E3", "E4")}
    assert found == rich | {(64, 100, "E4"), (64, 130, "E4")} | {(32, 160, family) for family in ("E1", "E2", "E3")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("E5", 10, 4), "family = 'E5': there is no such family; known: E1, E2, E3, E4"),
        (("E 1", 10, 4), "did you mean 'E1'?"),
        ((1, 10, 4), "family = 1"),
        (("E1", 4, 4), "arms = 4: it must be a whole number, at least 5"),
        (("E1", 10, 3), "contexts = 3: it must be a whole number, at least 4"),
        (("E1", 10.5, 4), "arms = 10.5"),
        (("E1", True, 4), "arms = True"),
        (("E1", 10, 10**9), "contexts = 1000000000: it must be at most"),
        (("E1", 9_000, 9_000), "arms x contexts = '9000 x 9000': it must be at most 10,000,000"),
    ],
)
def test_a_world_that_does_not_exist_is_refused_in_one_line(arguments, words):
    with pytest.raises(InputError) as error:
        World(*arguments)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
