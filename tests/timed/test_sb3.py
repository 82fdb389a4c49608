"""With Stable-Baselines3: one price, saved beside the model; PPO learns the rate where reward misleads."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")
pytest.importorskip("stable_baselines3", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium.wrappers import NormalizeReward
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import ConvertCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.timed import OptionsWrapper, Price, RewardRateWrapper, sb3
from rewardrate.timed.sb3 import RateCallback, RewardRateVecEnv, load_rate, rate_file, save_rate

QUEUE = "rewardrate/QueueControl-v0"


def small(env, **settings):
    return PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, device="cpu", seed=0, **settings)


def test_the_room_and_this_module_are_imported_without_torch():
    code = (
        "import sys, rewardrate.timed.sb3; assert 'torch' not in sys.modules and 'stable_baselines3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_gymnasium_the_message_says_what_to_install():
    code = "import sys; sys.modules['gymnasium'] = None\nimport rewardrate.timed"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: rewardrate.timed needs gymnasium" in done.stderr
    code = "import sys; sys.modules['stable_baselines3'] = None\nfrom rewardrate.timed.sb3 import RateCallback"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'rewardrate[gym]'" in done.stderr


def test_each_environment_is_charged_as_if_it_were_alone(scripted):
    script = ([[4.0, 1.0], [5.0, 2.0, 1.0]], [[1.0, 2.0], [3.0, 1.0, 1.0]])
    made = [lambda i=i: scripted(script[0][i], script[1][i]) for i in range(2)]
    env = RewardRateVecEnv(DummyVecEnv(made), rates.Fixed(0.5))
    env.reset()
    steps = [env.step(np.zeros(2, dtype=np.int64)) for _ in range(4)]
    assert [step[1].tolist() for step in steps] == [[3.5, 3.5], [0.0, 1.5], [3.5, 0.5], [0.0, 3.5]]
    assert [step[3][0]["differential_return"] for step in steps] == [3.5, 3.5, 3.5, 3.5]
    assert steps[1][3][1] | {"terminal_observation": 0} == {
        "reward": 2.0,
        "seconds": 1.0,
        "rate": 0.5,
        "differential_return": 5.0,
        "TimeLimit.truncated": False,
        "terminal_observation": 0,
    }
    assert steps[0][1].dtype == np.float32
    env.close()


def test_environments_in_processes_of_their_own_share_one_price():
    walks = []
    for kind in (DummyVecEnv, SubprocVecEnv):
        made = [lambda: gymnasium.make("rewardrate.timed:rewardrate/QueueControl-v0") for _ in range(2)]
        env = RewardRateVecEnv(kind(made), Price("totals", chains=2, every=8))
        env.seed(3)
        env.reset()
        walks.append([env.step(np.ones(2, dtype=np.int64))[1].tolist() for _ in range(20)])
        assert env.price.estimate.count == 10  # a row of each chain in each of five rounds
        env.close()
    assert np.allclose(*walks, rtol=1e-5)  # one of the two keeps rewards in 32 bits


@pytest.mark.parametrize("seconds", [None, -1.0, math.nan, math.inf], ids=repr)
def test_bad_seconds_are_refused(scripted, seconds):
    env = RewardRateVecEnv(DummyVecEnv([lambda: scripted([1.0], [1.0]), lambda: scripted([1.0], [seconds])]))
    env.reset()
    with pytest.raises(InputError, match=r"infos\[1\]\['seconds'\]"):
        env.step(np.zeros(2, dtype=np.int64))


def test_rewards_are_normalised_after_they_are_priced():
    priced = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2, seed=0), Price(chains=2, every=32))
    small(VecNormalize(priced, norm_obs=False)).learn(128)
    assert 0.1 < priced.price.rate < 2.0  # in the task's own units
    with pytest.raises(InputError, match="it charges for time already; wrap it once"):
        RewardRateVecEnv(VecNormalize(priced, norm_obs=False, norm_reward=False), Price(chains=2))
    with pytest.raises(InputError, match="put VecNormalize outside"):
        RewardRateVecEnv(VecNormalize(make_vec_env(QUEUE, n_envs=2), norm_obs=False))
    RewardRateVecEnv(VecNormalize(make_vec_env(QUEUE, n_envs=2), norm_obs=False, norm_reward=False))


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_environments_that_normalise_or_price_their_rewards_themselves_are_refused(kind):
    for wrapper, words in ((NormalizeReward, "rescaled while it runs"), (RewardRateWrapper, "charge for time already")):
        made = kind([lambda wrapper=wrapper: wrapper(gymnasium.make(f"rewardrate.timed:{QUEUE}")) for _ in range(2)])
        with pytest.raises(InputError, match=words):
            RewardRateVecEnv(made)
        made.close()


def test_a_model_is_evaluated_without_moving_the_price_it_learns_by():
    env = VecNormalize(
        RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2, seed=0), Price(chains=2, every=64)), norm_obs=False
    )
    limited = {"max_episode_steps": 20}
    held = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2, seed=1, env_kwargs=limited), rates.Fixed(0.0))
    held = VecNormalize(held, norm_obs=False, training=False, norm_reward=False)
    evaluate = EvalCallback(held, eval_freq=32, n_eval_episodes=2, verbose=0)
    small(env).learn(128, callback=evaluate)
    assert env.venv.price.estimate.count == 4  # a row of each chain in each of two rounds
    assert 0 < evaluate.last_mean_reward < 40  # as earned: twenty steps, nothing charged


def test_a_price_for_another_number_of_environments_is_refused():
    with pytest.raises(InputError, match=r"8 chains for 2 environments; make it with Price\(..., chains=2\)"):
        RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2), Price())


def test_what_is_no_vectorised_environment_is_refused(scripted):
    with pytest.raises(InputError, match="it must be a VecEnv of Stable-Baselines3; make one with make_vec_env"):
        RewardRateVecEnv(scripted([1.0], [1.0]))


def test_the_callback_saves_the_price_beside_the_model_and_another_run_goes_on_with_it(tmp_path):
    path = tmp_path / "models" / "queue.zip"
    env = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=4), Price(chains=4, every=64))
    model = small(env).learn(512, callback=RateCallback(env, path, every=2))
    assert sorted(file.name for file in path.parent.iterdir()) == ["queue.rate.json", "queue.zip"]
    assert json.loads(rate_file(path).read_text()) == env.state_dict()
    assert model.num_timesteps == 512
    again = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=4), Price(chains=4, every=64))
    loaded = PPO.load(path, env=again)
    seen = []
    callback = RateCallback(again, load=path)
    loaded.learn(128, callback=[callback, ConvertCallback(lambda *_: seen.append(again.price.rate) or True)])
    assert seen[0] == env.price.rate > 0
    assert again.price.estimate.count > env.price.estimate.count


@pytest.mark.parametrize(("charge", "scale"), [("rate", 0.25), ("mean", 1.0)])
def test_the_callback_logs_what_is_charged(scripted, charge, scale):
    sign = {"rate": 1.0, "mean": -1.0}[charge]
    made = [lambda: scripted([3.0 * sign] * 8, [2.0] * 8) for _ in range(2)]
    env = RewardRateVecEnv(DummyVecEnv(made), Price("totals", chains=2, every=64, charge=charge, price_scale=scale))
    model, logged = small(env), []
    callback = RateCallback(env)
    model.set_logger(Logger(None, []))
    record = model.logger.record
    model.logger.record = lambda name, value, *rest, **more: (logged.append((name, value)), record(name, value))[1]
    model.learn(64, callback=callback)
    assert dict(logged)["rewardrate/rate"] == env.price.rate == 1.5 * sign * scale
    assert dict(logged)["rewardrate/mean"] == 1.5 * sign


def test_a_saved_price_is_loaded_once_and_later_training_goes_on_with_what_was_learned(tmp_path):
    env = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=4), Price("totals", chains=4, every=64))
    small(env).learn(256, callback=RateCallback(env, tmp_path / "queue"))
    saved = env.price.estimate.count
    again = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=4), Price("totals", chains=4, every=64))
    model, callback, counts = PPO.load(tmp_path / "queue", env=again), RateCallback(again, load=tmp_path / "queue"), []
    for _ in range(2):
        model.learn(128, callback=callback, reset_num_timesteps=False)
        counts.append(again.price.estimate.count)
    assert saved < counts[0] < counts[1]


def test_the_callback_works_with_a_price_that_single_wrappers_share(tmp_path):
    shared = Price("niw", every=64)
    env = make_vec_env(QUEUE, n_envs=4, wrapper_class=lambda env: RewardRateWrapper(env, shared))
    small(env).learn(256, callback=RateCallback(shared, tmp_path / "model"))
    assert shared.rate > 0
    fresh = Price("niw", every=64)
    load_rate(fresh, tmp_path / "model.zip")
    assert fresh.state_dict() == shared.state_dict()


def test_a_missing_damaged_or_foreign_rate_file_is_refused_and_nothing_changes(tmp_path):
    price = Price("totals")
    before = price.state_dict()
    with pytest.raises(InputError, match="No such file"):
        load_rate(price, tmp_path / "model.zip")
    whole = save_rate(price, tmp_path / "model.zip").read_text()
    for text, words in ((whole[:-9], "not JSON, or truncated"), ("[]", "not the state of a price")):
        rate_file(tmp_path / "model.zip").write_text(text)
        with pytest.raises(InputError, match=words):
            load_rate(price, tmp_path / "model.zip")
    save_rate(Price("niw"), tmp_path / "model")
    with pytest.raises(InputError, match="this is a Totals"):
        load_rate(price, tmp_path / "model")
    assert price.state_dict() == before


def test_what_has_no_price_cannot_be_saved():
    with pytest.raises(InputError, match="it must be a Price, or a wrapper that has one"):
        RateCallback(0.5)
    with pytest.raises(InputError, match="every = 0"):
        RateCallback(Price(), every=0)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = sb3.Nonsense


def test_ppo_takes_options_of_a_real_environment():
    env = make_vec_env(
        "CartPole-v1", n_envs=2, wrapper_class=lambda env: RewardRateWrapper(OptionsWrapper(env), "totals")
    )
    model = small(env).learn(128)
    assert model.action_space.shape == (2,)


def learned(name, price, steps):
    """Share of the optimal rate that the learned policy has, exactly; the settings of benchmarks/timed_sb3.py."""
    env = make_vec_env(name, n_envs=32, seed=0)
    model = PPO(
        "MlpPolicy",
        env if price is None else RewardRateVecEnv(env, price),
        learning_rate=lambda left: 3e-3 * left,
        n_steps=64,
        batch_size=512,
        n_epochs=5,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [32]},
        seed=0,
        device="cpu",
    ).learn(steps)
    reference = gymnasium.make(name).unwrapped
    policy = model.predict(np.arange(reference.smdp.states), deterministic=True)[0].astype(np.int64)
    return reference.smdp.rate(policy) / reference.exact().rate


@pytest.mark.slow
def test_ppo_learns_the_optimal_rate_with_a_price_and_not_without():
    """One task, one seed, fewer steps; five seeds of all three tasks are in results/."""
    name = "rewardrate/MachineMaintenance-v0"
    assert learned(name, Price(chains=32, every=2048), 60_000) > 0.98
    assert learned(name, None, 40_000) < 0.8


def test_the_callback_saves_what_a_second_training_of_equal_length_has_learned(tmp_path):
    env = RewardRateVecEnv(make_vec_env(QUEUE, n_envs=2), Price(chains=2, every=64))
    model, callback = small(env), RateCallback(env, tmp_path / "queue", every=100)
    model.learn(64, callback=callback)
    first = (tmp_path / "queue.zip").stat().st_mtime_ns
    model.learn(64, callback=callback)
    assert (tmp_path / "queue.zip").stat().st_mtime_ns > first
