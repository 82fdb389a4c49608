"""The reference environments are what their tables say, and reward alone is the wrong aim in each: proven exactly."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")
pytest.importorskip("stable_baselines3", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_sb3

from rewardrate.errors import InputError
from rewardrate.theory import SMDP
from rewardrate.timed import REFERENCE, Foraging, QueueControl, check_timed

EXPECTED = ".*different from the unwrapped version"  # gymnasium.make wraps
DRAWS = 3000


@pytest.fixture(params=REFERENCE, scope="module")
def env(request):
    return gymnasium.make(request.param).unwrapped


def test_draws_have_the_means_and_transitions_of_the_tables(env):
    """3,000 draws of each state and action. False-alarm rate per environment: 1 in 1,000, shared by all its tests."""
    smdp, rng = env.smdp, np.random.default_rng(7)
    level = 1e-3 / (3 * smdp.states * smdp.actions)
    z = stats.norm.isf(level / 2)
    for state, action in itertools.product(range(smdp.states), range(smdp.actions)):
        drawn = [env.draw(state, action, rng) for _ in range(DRAWS)]
        for column, table in ((1, smdp.reward), (2, smdp.seconds)):
            values = np.array([row[column] for row in drawn])
            error = values.std() / np.sqrt(DRAWS)
            assert abs(values.mean() - table[state, action]) <= z * error + 1e-12, (state, action, column)
        counts = np.bincount([row.state for row in drawn], minlength=smdp.states)
        expected = DRAWS * smdp.transition[state, action]
        assert counts[expected == 0].sum() == 0
        rare = (expected > 0) & (expected < 5)
        seen = np.append(counts[expected >= 5], counts[rare].sum())
        wanted = np.append(expected[expected >= 5], expected[rare].sum())
        keep = wanted > 0
        if keep.sum() > 1:
            assert stats.chisquare(seen[keep], wanted[keep]).pvalue > level, (state, action)


def test_every_deterministic_policy_has_one_rate(env):
    """From each state some state is reached under every policy: policies are drawn at random, 300 of them."""
    rng = np.random.default_rng(0)
    best = env.exact().rate
    for _ in range(300):
        assert env.smdp.rate(rng.integers(0, env.smdp.actions, env.smdp.states)) <= best + 1e-12


def dinkelbach(env, gamma):
    """The best policy at a price, then the price that this policy earns, and so on: where it ends."""
    rate = 0.0
    for _ in range(30):
        rate = env.smdp.rate(env.reward_policy(gamma, rate=rate))
    return rate


def test_the_exact_optimum_is_the_same_by_value_iteration_and_by_dinkelbach(env):
    best = env.exact()
    assert env.smdp.optimal("value").rate == pytest.approx(best.rate, rel=1e-9)
    assert dinkelbach(env, 1.0) == pytest.approx(best.rate, rel=1e-12)
    at_best = SMDP(env.smdp.transition, env.smdp.reward - best.rate * env.smdp.seconds, np.ones_like(env.smdp.reward))
    assert at_best.optimal().rate == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.999, 0.99, 0.95, 0.9])
def test_the_best_policy_by_reward_has_at_most_four_fifths_of_the_best_rate(env, gamma):
    assert env.smdp.rate(env.reward_policy(gamma)) < 0.8 * env.exact().rate


@pytest.mark.parametrize(
    ("gamma", "low", "high"), [(0.999, 1.0, 1.0), (0.99, 1.0, 1.0), (0.9, 0.98, 1.0), (0.5, 0.0, 0.83)]
)
def test_a_discount_of_099_leaves_the_priced_optimum_where_it_is_and_one_of_05_does_not(env, gamma, low, high):
    share = dinkelbach(env, gamma) / env.exact().rate
    assert low - 1e-12 <= share <= high + 1e-12


def test_at_a_discount_of_08_the_price_may_swing_for_ever():
    """docs/timed.md gives both ends of the swing: no price is the rate of the policy that it makes best."""
    for env, ends in ((QueueControl(), (0.820, 0.995)), (Foraging(), (0.648, 1.0))):
        rate = dinkelbach(env, 0.8)
        after = env.smdp.rate(env.reward_policy(0.8, rate=rate))
        assert sorted((rate / env.exact().rate, after / env.exact().rate)) == pytest.approx(ends, abs=5e-4)


def test_the_reward_policy_is_the_best_by_reward_per_step(env):
    per_step = SMDP(env.smdp.transition, env.smdp.reward, np.ones_like(env.smdp.reward))
    best = per_step.rate(env.reward_policy())
    assert best == pytest.approx(per_step.optimal("value").rate, rel=1e-9)
    assert best > per_step.rate(env.exact().policy)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.99])
def test_the_discounted_reward_policy_is_that_of_value_iteration(env, gamma):
    smdp, value_s = env.smdp, np.zeros(env.smdp.states)
    for _ in range(4000):
        value_s = (smdp.reward + gamma * smdp.transition @ value_s).max(axis=1)
    rows, policy = np.arange(smdp.states), env.reward_policy(gamma)
    chosen = (smdp.reward + gamma * smdp.transition @ value_s)[rows, policy]
    assert chosen == pytest.approx(value_s, rel=1e-9, abs=1e-9)


def test_simulation_agrees_with_the_exact_rate(env):
    """30,000 steps of the optimal policy in 15 runs; |t| < 5.3 has a false-alarm rate of 1 in 10,000."""
    best = env.exact()
    found = np.array([env.simulated_rate(best.policy, 2000, seed) for seed in range(15)])
    assert abs(found.mean() - best.rate) < 5.3 * found.std(ddof=1) / np.sqrt(15)


def test_a_random_policy_is_simulated_too_and_an_impossible_one_refused(env):
    """10 runs of 2,000 steps; |t| < 6.6 has a false-alarm rate of 1 in 10,000."""
    even = np.full((env.smdp.states, env.smdp.actions), 1 / env.smdp.actions)
    found = np.array([env.simulated_rate(even, 2000, seed) for seed in range(10)])
    assert abs(found.mean() - env.smdp.rate(even)) < 6.6 * found.std(ddof=1) / np.sqrt(10)
    with pytest.raises(InputError, match="policy"):
        env.simulated_rate([0, 1], 10)
    with pytest.raises(InputError, match="steps"):
        env.simulated_rate(env.exact().policy, 0)


def test_both_checkers_pass_and_the_convention_is_kept(env):
    made = gymnasium.make(env.spec.id)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=EXPECTED)
        check_env(made, skip_render_check=True)
    check_env(made.unwrapped)
    check_env_sb3(made)
    assert check_timed(made, steps=300) > 0


def test_the_same_seed_gives_the_same_walk(env):
    walks = []
    for _ in range(2):
        made = gymnasium.make(env.spec.id)
        made.reset(seed=11)
        walks.append([made.step(k % made.action_space.n)[:2] for k in range(50)])
    assert walks[0] == walks[1]


def test_one_may_start_anywhere_but_nowhere_else(env):
    made = gymnasium.make(env.spec.id)
    last = env.smdp.states - 1
    assert made.reset(seed=0, options={"state": last})[0] == last
    for state in (-1, last + 1, "full", 0.5):
        with pytest.raises(InputError, match=f"a number from 0 to {last}"):
            made.unwrapped.reset(options={"state": state})


def test_an_action_that_does_not_exist_is_refused(env):
    made = gymnasium.make(env.spec.id).unwrapped
    made.reset(seed=0)
    for action in (-1, env.smdp.actions, 0.5, None):
        with pytest.raises(InputError, match=f"a number from 0 to {env.smdp.actions - 1}"):
            made.step(action)


def test_a_discount_outside_of_zero_to_one_is_refused(env):
    for gamma in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="gamma"):
            env.reward_policy(gamma)
    with pytest.raises(InputError, match="rate"):
        env.reward_policy(rate=float("inf"))


def test_the_state_is_drawn_as_a_word_or_a_row_of_cells(env):
    picture = gymnasium.make(env.spec.id, render_mode="rgb_array")
    picture.reset(seed=0, options={"state": 1})
    assert picture.render().shape == (24, 24 * env.smdp.states, 3)
    assert (picture.render()[0, ::24, 0] > 200).tolist() == [state == 1 for state in range(env.smdp.states)]
    word = gymnasium.make(env.spec.id, render_mode="ansi")
    word.reset(seed=0)
    assert "state 0 of 0 to" in word.render()
    assert env.render() is None
    with pytest.raises(InputError, match="there is no such mode"):
        type(env)(render_mode="human")
