"""One environment, priced: the reward that is left, what info keeps, both checkers, the price that is saved."""

import json
import math
import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")
pytest.importorskip("stable_baselines3", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import NormalizeReward, TransformReward
from stable_baselines3.common.env_checker import check_env as check_env_sb3

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.timed import REFERENCE, OptionsWrapper, Price, RewardRateWrapper, WallClock

EXPECTED = ".*(different from the unwrapped version|Box observation space m)"  # it is a wrapper; CartPole


def test_a_step_is_left_with_its_reward_minus_rate_times_seconds(scripted):
    env = RewardRateWrapper(scripted([3.0, 5.0], [2.0, 4.0]), rates.Fixed(0.5))
    env.reset()
    assert env.step(0)[1] == 2.0
    observation, left, terminated, truncated, info = env.step(1)
    assert (observation, left, terminated, truncated) == (2, 3.0, True, False)
    assert info == {"reward": 5.0, "seconds": 4.0, "rate": 0.5, "differential_return": 5.0}


def test_the_price_is_the_one_that_stood_before_the_step(scripted):
    env = RewardRateWrapper(scripted([4.0, 4.0, 4.0], [2.0, 2.0, 2.0]), Price("totals", chains=1, every=1))
    env.reset()
    found = [env.step(0) for _ in range(3)]
    assert [step[4]["rate"] for step in found] == [0.0, 2.0, 2.0]
    assert [step[1] for step in found] == [4.0, 0.0, 0.0]


def test_a_reset_starts_the_differential_return_anew_and_keeps_the_price(scripted):
    env = RewardRateWrapper(scripted([4.0, 1.0], [2.0, 2.0]), Price("totals", chains=1, every=1))
    env.reset()
    env.step(0)
    env.step(0)
    assert env.differential_return == 1.0  # 4 unpriced, then 1 - 2 * 2
    env.reset(seed=3, options={})
    assert env.differential_return == 0.0
    assert env.price.rate == 1.25


@pytest.mark.parametrize("seconds", [None, -1.0, 0.0, math.nan, math.inf, "2"], ids=repr)
def test_missing_or_impossible_seconds_are_refused_and_the_price_is_unchanged(scripted, seconds):
    env = RewardRateWrapper(scripted([1.0], [seconds]), "totals")
    env.reset()
    before = env.state_dict()
    with pytest.raises(InputError, match=r"info\['seconds'\]") as caught:
        env.step(0)
    assert "\n" not in str(caught.value)
    assert env.state_dict() == before


def test_a_reward_that_is_not_finite_is_refused(scripted):
    env = RewardRateWrapper(scripted([math.nan], [1.0]))
    env.reset()
    with pytest.raises(InputError, match="reward = nan"):
        env.step(0)


@pytest.mark.parametrize("key", ["reward", "rate", "differential_return"])
def test_an_entry_of_the_environment_that_would_be_lost_is_refused(scripted, key):
    env = RewardRateWrapper(scripted([1.0], [1.0], extra={key: 7}))
    env.reset()
    with pytest.raises(InputError, match="rename yours"):
        env.step(0)


def test_time_is_not_priced_twice(scripted):
    once = gymnasium.wrappers.TimeLimit(RewardRateWrapper(scripted([1.0], [1.0])), 5)
    with pytest.raises(InputError, match="wrap it once"):
        RewardRateWrapper(once)


def test_a_wrapper_with_another_kind_of_price_is_none_of_ours(scripted):
    class Shop(gymnasium.Wrapper):
        price = 9.99

    RewardRateWrapper(Shop(scripted([1.0], [1.0])))


def test_what_is_no_single_environment_is_refused():
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    for wrapper, words in (
        (RewardRateWrapper, "use RewardRateVectorWrapper"),
        (WallClock, "wrappers=.timed.WallClock"),
        (OptionsWrapper, "wrappers=.timed.OptionsWrapper"),
    ):
        with pytest.raises(InputError, match=words):
            wrapper(vector)
        with pytest.raises(InputError, match=r"it must be a gymnasium.Env"):
            wrapper("CartPole-v1")


def test_an_unknown_estimator_is_refused_with_the_nearest_name(scripted):
    with pytest.raises(InputError, match="did you mean 'niw'"):
        RewardRateWrapper(scripted([1.0], [1.0]), "niww")


@pytest.mark.parametrize("estimator", [None, "niw", "neural", "robbins-monro", rates.Fixed(0.3)], ids=str)
@pytest.mark.parametrize("name", [*REFERENCE, "CartPole-v1"])
def test_both_checkers_pass_whatever_the_estimator(name, estimator):
    base = gymnasium.make(name)
    env = RewardRateWrapper(WallClock(base) if name == "CartPole-v1" else base, estimator)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*(different from the unwrapped version|Box observation space m)"
        )  # it is a wrapper
        check_env(env, skip_render_check=True)
    check_env_sb3(env)


def test_a_price_that_moves_makes_the_environment_nondeterministic_and_a_fixed_one_does_not():
    moves, stands = (
        RewardRateWrapper(gymnasium.make("rewardrate/Foraging-v0"), price)
        for price in (Price("totals", chains=1, every=1), rates.Fixed(0.1))
    )
    assert moves.spec.nondeterministic
    assert not stands.spec.nondeterministic
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=EXPECTED)
        check_env(moves, skip_render_check=True)


def test_a_wrapped_environment_can_be_made_again_from_its_spec():
    env = RewardRateWrapper(gymnasium.make("rewardrate/QueueControl-v0", room=3), "robbins-monro")
    again = gymnasium.make(env.spec)
    assert isinstance(again, RewardRateWrapper)
    assert isinstance(again.price.estimator, rates.RobbinsMonro)
    assert again.unwrapped.room == 3


def test_wrappers_with_one_price_learn_it_together(scripted):
    shared = Price("totals", chains=2, every=4)
    envs = [RewardRateWrapper(scripted([reward] * 4, [1.0] * 4), shared) for reward in (1.0, 3.0)]
    for env in envs:
        env.reset()
    for _ in range(2):
        for env in envs:
            env.step(0)
    assert [env.step(0)[4]["rate"] for env in envs] == [2.0, 2.0]


def test_the_price_is_saved_and_loaded_as_json():
    first, second = (RewardRateWrapper(gymnasium.make("rewardrate/QueueControl-v0"), Price(every=64)) for _ in range(2))
    first.reset(seed=0)
    for _ in range(200):
        first.step(1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.price.rate == first.price.rate > 0
    with pytest.raises(InputError, match="not the state of a price"):
        second.load_state_dict({"rate": 1.0})


@pytest.mark.parametrize("name", REFERENCE)
def test_at_the_exact_rate_the_optimal_policy_earns_nothing_above_its_time(name):
    """n = 8,000 steps in 20 blocks; |t| < 4.6 has a false-alarm rate of 2 in 10,000."""
    best = gymnasium.make(name).unwrapped.exact()
    env = RewardRateWrapper(gymnasium.make(name), rates.Fixed(best.rate))
    state, _ = env.reset(seed=1)
    left = np.empty(8_000)
    for step in range(left.size):
        state, left[step], *_ = env.step(best.policy[state])
    blocks = left.reshape(20, -1).sum(axis=1)
    assert abs(blocks.mean()) < 4.6 * blocks.std(ddof=1) / math.sqrt(20)


def test_rewards_whose_scale_moves_are_refused_inside_and_taken_outside(scripted):
    with pytest.raises(InputError, match=r"rescaled while it runs.*put NormalizeReward outside of the price"):
        RewardRateWrapper(TransformReward(NormalizeReward(scripted([1.0], [1.0])), float))
    outside = NormalizeReward(RewardRateWrapper(scripted([3.0], [2.0]), rates.Fixed(0.5)))
    outside.reset()
    assert outside.step(0)[4]["reward"] == 3.0


def test_a_fixed_change_of_the_reward_is_the_users_own_and_the_rate_is_in_its_units(scripted):
    env = RewardRateWrapper(TransformReward(scripted([3.0], [2.0]), lambda reward: 10 * reward), rates.Fixed(1.0))
    env.reset()
    assert env.step(0)[1] == 28.0
