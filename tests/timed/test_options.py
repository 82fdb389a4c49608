"""Actions of variable length, tried on environments of Gymnasium's own."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")
pytest.importorskip("stable_baselines3", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_sb3

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.timed import OptionsWrapper, RewardRateVectorWrapper, RewardRateWrapper, WallClock


def cartpole(**settings):
    return OptionsWrapper(gymnasium.make("CartPole-v1"), **settings)


def test_an_option_is_the_inner_action_repeated():
    env, inner = cartpole(lengths=(1, 3)), gymnasium.make("CartPole-v1")
    env.reset(seed=5)
    inner.reset(seed=5)
    for action in ((1, 1), (0, 1), (0, 0), (1, 1)):
        observation, reward, terminated, truncated, info = env.step(np.array(action))
        steps = (1, 3)[action[1]]
        for _ in range(steps):
            wanted, _, *over, _ = inner.step(action[0])
        assert np.array_equal(observation, wanted)
        assert [terminated, truncated] == over == [False, False]
        assert reward == info["seconds"] == info["steps"] == steps


def test_an_option_ends_with_the_episode():
    env = cartpole(lengths=(500,))
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.array([1, 0]))
    assert terminated
    assert not truncated
    assert reward == info["seconds"] == info["steps"] < 15  # always to the right, the pole falls
    short = OptionsWrapper(gymnasium.make("CartPole-v1", max_episode_steps=3), (8,))
    short.reset(seed=0)
    _, reward, terminated, truncated, info = short.step(np.array([1, 0]))
    assert truncated
    assert reward == info["seconds"] == 3


def test_the_time_of_a_step_may_be_given():
    env = cartpole(lengths=(4,), step_seconds=0.02)
    env.reset(seed=0)
    assert env.step(np.array([0, 0]))[4]["seconds"] == 0.08


def test_an_environment_with_seconds_of_its_own_adds_them_up(scripted):
    env = OptionsWrapper(scripted([1.0, 2.0, 4.0], [0.5, 1.5, 3.0]), (2,))
    env.reset()
    _, reward, _, _, info = env.step(np.array([0, 0]))
    assert (reward, info["seconds"], info["steps"]) == (3.0, 2.0, 2)
    _, reward, terminated, _, info = env.step(np.array([0, 0]))
    assert (reward, info["seconds"], info["steps"], terminated) == (4.0, 3.0, 1, True)
    forced = OptionsWrapper(scripted([1.0, 2.0, 4.0], [0.5, 1.5, 3.0]), (2,), step_seconds=1.0)
    forced.reset()
    assert forced.step(np.array([0, 0]))[4]["seconds"] == 2.0


def test_seconds_that_only_some_inner_steps_give_are_refused(scripted):
    env = OptionsWrapper(scripted([1.0, 2.0], [0.5, None]), (2,))
    env.reset()
    with pytest.raises(InputError, match="only some of 2 inner steps"):
        env.step(np.array([0, 0]))
    env = OptionsWrapper(scripted([1.0, 2.0], [0.5, -1.0]), (2,))
    env.reset()
    with pytest.raises(InputError, match="finite and positive"):
        env.step(np.array([0, 0]))


def test_an_entry_of_the_environment_that_would_be_lost_is_refused(scripted):
    env = OptionsWrapper(scripted([1.0], [1.0], extra={"steps": 99}), (1,))
    env.reset()
    with pytest.raises(InputError, match=r"info\['steps'\] = 99.*rename yours"):
        env.step(np.array([0, 0]))


def test_options_go_inside_of_the_price(scripted):
    with pytest.raises(InputError, match="it charges for time already; price the options instead"):
        OptionsWrapper(RewardRateWrapper(scripted([1.0], [1.0])), (4,))


@pytest.mark.parametrize("lengths", [(), "12", 4, (0,), (1.5,), (2, 2), (True,), None], ids=repr)
def test_impossible_lengths_are_refused(lengths):
    with pytest.raises(InputError, match="lengths"):
        cartpole(lengths=lengths)


@pytest.mark.parametrize("action", [1, (1,), (2, 0), (0, 4), (0, -1), (0.5, 1), None], ids=repr)
def test_an_action_outside_of_the_space_is_refused(action):
    env = cartpole()
    env.reset(seed=0)
    with pytest.raises(InputError, match="index of a length"):
        env.step(action)


def test_a_pair_in_a_tuple_or_list_is_taken():
    env = cartpole(lengths=(1, 2))
    env.reset(seed=0)
    assert env.step((1, 1))[4]["steps"] == env.step([0, 1])[4]["steps"] == 2


def test_lengths_may_be_a_list_or_an_array():
    assert cartpole(lengths=[1, 2]).lengths == cartpole(lengths=np.array([1, 2])).lengths == (1, 2)


def test_continuous_actions_make_a_tuple_space():
    env = OptionsWrapper(gymnasium.make("Pendulum-v1"), (1, 5))
    assert isinstance(env.action_space, spaces.Tuple)
    env.reset(seed=0)
    assert env.step((np.array([0.5], dtype=np.float32), 1))[4]["seconds"] == 5.0
    with pytest.raises(InputError, match="an array needs the type float32"):
        env.step((np.array([0.5]), 0))


def test_discrete_actions_may_start_anywhere():
    class Shifted(gymnasium.ActionWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.action_space = spaces.Discrete(2, start=7)

        def action(self, action):
            return action - 7

    env, plain = OptionsWrapper(Shifted(gymnasium.make("CartPole-v1")), (2,)), cartpole(lengths=(2,))
    env.reset(seed=0)
    plain.reset(seed=0)
    assert np.array_equal(env.step(np.array([1, 0]))[0], plain.step(np.array([1, 0]))[0])


def test_both_checkers_pass_with_and_without_a_price():
    for env in (cartpole(), RewardRateWrapper(cartpole(), "niw"), RewardRateWrapper(cartpole(), rates.Fixed(0.5))):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*(different from the unwrapped version|Box observation space m)"
            )
            check_env(env, skip_render_check=True)
        check_env_sb3(env)


def test_options_are_made_again_from_the_spec_and_inside_a_vector():
    again = gymnasium.make(cartpole(lengths=(1, 6), step_seconds=0.5).spec)
    assert (again.lengths, again.step_seconds) == ((1, 6), 0.5)
    env = RewardRateVectorWrapper(
        gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync", wrappers=[OptionsWrapper]),
        rates.Fixed(1.0),
    )
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.array([[0, 0], [1, 1], [0, 2]]))
    assert info["seconds"].tolist() == info["reward"].tolist() == [1.0, 2.0, 4.0]
    assert reward.tolist() == [0.0, 0.0, 0.0]  # one a second is what CartPole pays


def test_measured_inner_steps_add_up():
    env = OptionsWrapper(WallClock(gymnasium.make("CartPole-v1"), floor_seconds=0.5), (4,))
    env.reset(seed=0)
    assert env.step(np.array([0, 0]))[4]["seconds"] == 2.0
