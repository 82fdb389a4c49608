"""A replay buffer charges what it stored the price of now; an off-policy learner without one is warned of."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")
pytest.importorskip("stable_baselines3", reason="needs the gym extra: pip install 'rewardrate[gym]'")

from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.timed import Price, RewardRateWrapper
from rewardrate.timed.sb3 import (
    RateCallback,
    RewardRateNStepReplayBuffer,
    RewardRateReplayBuffer,
    RewardRateVecEnv,
)

QUEUE = "rewardrate/QueueControl-v0"


def priced(n_envs=2, every=32, **settings):
    return RewardRateVecEnv(make_vec_env(QUEUE, n_envs=n_envs, seed=0, **settings), Price(chains=n_envs, every=every))


def dqn(env, **settings):
    given = {"learning_starts": 50, "buffer_size": 4_000, "batch_size": 16, "seed": 0, "device": "cpu"}
    return DQN("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, **{**given, **settings})


def stored(buffer):
    return slice(buffer.buffer_size if buffer.full else buffer.pos)


def sampled_price(buffer):
    """The price that every sampled reward was charged, solved from what the step earned and took."""
    buffer.sample(8)
    here = stored(buffer)
    return (buffer.earned[here] - buffer.rewards[here]) / buffer.seconds[here]


def test_stored_rewards_are_charged_the_price_of_now_and_plain_buffers_keep_the_old_ones():
    env = priced()
    model = dqn(env, replay_buffer_class=RewardRateReplayBuffer).learn(600)
    buffer = model.replay_buffer
    assert env.price.rate > 0
    assert np.allclose(sampled_price(buffer), buffer.rate, rtol=1e-4)
    assert buffer.rate == pytest.approx(env.price.rate, rel=0.2)  # at most one round behind
    plain = dqn(priced()).learn(600).replay_buffer
    assert plain.rewards[:16].min() == 0.0, "stored before there was a price, and never charged since"
    assert buffer.rewards[:16].min() < 0.0


def test_a_full_buffer_and_several_steps_at_once_are_repriced_too():
    model = dqn(priced(), buffer_size=200, replay_buffer_class=RewardRateNStepReplayBuffer).learn(600)
    buffer = model.replay_buffer
    assert buffer.full
    assert np.allclose(sampled_price(buffer), buffer.rate, rtol=1e-4)


def test_a_buffer_that_was_saved_goes_on_with_the_price_of_the_environment_it_meets(tmp_path):
    model = dqn(priced(), replay_buffer_class=RewardRateReplayBuffer).learn(300)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    again = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2, seed=1), rates.Fixed(2.0))
    loaded = DQN.load(tmp_path / "model", env=again)
    loaded.load_replay_buffer(tmp_path / "buffer")
    before = loaded.replay_buffer.pos
    loaded.learn(40, reset_num_timesteps=False)
    assert loaded.replay_buffer.pos > before > 0
    assert np.allclose(sampled_price(loaded.replay_buffer), 2.0, rtol=1e-4)


def test_rewards_are_normalised_after_they_are_repriced():
    env = VecNormalize(priced(), norm_obs=False)
    buffer = dqn(env, replay_buffer_class=RewardRateReplayBuffer).learn(300).replay_buffer
    assert np.allclose(sampled_price(buffer), buffer.rate, rtol=1e-4)


def test_wrappers_around_single_environments_that_share_a_price_will_do():
    shared = Price("totals", every=64)
    env = make_vec_env(QUEUE, n_envs=2, wrapper_class=lambda env: RewardRateWrapper(env, shared))
    buffer = dqn(env, replay_buffer_class=RewardRateReplayBuffer).learn(400).replay_buffer
    assert buffer.rate > 0
    assert np.allclose(sampled_price(buffer), buffer.rate, rtol=1e-4)


def test_rewards_that_are_changed_outside_of_the_price_are_refused():
    class Doubled(VecEnvWrapper):
        def reset(self):
            return self.venv.reset()

        def step_wait(self):
            observation, reward, done, infos = self.venv.step_wait()
            return observation, 2 * reward, done, infos

    with pytest.raises(InputError, match=r"reward\[0\] = .*it is not reward - rate \* seconds"):
        dqn(Doubled(priced()), replay_buffer_class=RewardRateReplayBuffer).learn(20)
    with pytest.raises(InputError, match="wrap the environment in RewardRateVecEnv or RewardRateWrapper"):
        dqn(make_vec_env(QUEUE, n_envs=2), replay_buffer_class=RewardRateReplayBuffer).learn(20)


def test_an_off_policy_learner_with_old_prices_is_warned_of_and_told_the_remedy():
    env = priced()
    words = r"DQN learns from stored rewards.*replay_buffer_class=timed\.sb3\.RewardRateReplayBuffer"
    with pytest.warns(UserWarning, match=words):
        dqn(env).learn(8, callback=RateCallback(env))
    with pytest.warns(UserWarning, match=r"RewardRateNStepReplayBuffer"):
        dqn(env, n_steps=3).learn(8, callback=RateCallback(env))
    fixed = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2), rates.Fixed(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        dqn(env, replay_buffer_class=RewardRateReplayBuffer).learn(8, callback=RateCallback(env))
        dqn(fixed).learn(8, callback=RateCallback(fixed))  # one price for ever: nothing is stale


def test_short_rollouts_do_not_save_the_model_hundreds_of_times(tmp_path):
    env = priced(n_envs=1, every=400)
    callback, saves = RateCallback(env, tmp_path / "model", every=2), []
    save = callback.save
    callback.save = lambda: (saves.append(callback.num_timesteps), save())
    dqn(env, replay_buffer_class=RewardRateReplayBuffer, gradient_steps=0).learn(2_000, callback=callback)
    assert saves == [800, 1_600, 2_000]
