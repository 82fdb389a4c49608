"""Seconds stand in info, from the environment or from the wall clock; nonsense is refused in one line."""

import math
import time
import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium.utils.env_checker import check_env

from rewardrate.errors import InputError
from rewardrate.timed import REFERENCE, TimedEnv, WallClock, check_timed
from rewardrate.timed.convention import finite_reward, seconds_in

EXPECTED = ".*(different from the unwrapped version|Box observation space m)"  # it is a wrapper; CartPole


BAD = [None, math.nan, math.inf, -math.inf, -1.0, 0.0, "1.0", True, [1.0], np.array([1.0, 2.0]), 10**400, 1j]


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_impossible_seconds_are_refused_in_one_line(value):
    with pytest.raises(InputError, match="finite and positive") as caught:
        seconds_in({"seconds": value})
    assert "\n" not in str(caught.value)
    assert caught.value.field == "info['seconds']"


def test_missing_seconds_are_refused_with_the_two_ways_out():
    with pytest.raises(InputError, match=r"add them in step\(\), or wrap the environment in timed.WallClock"):
        seconds_in({})


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2.0), np.int64(2), np.array(2.0), np.array([2.0])], ids=repr)
def test_every_kind_of_number_is_taken(value):
    assert seconds_in({"seconds": value}) == finite_reward("reward", value) == 2.0


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "1", [1.0]], ids=repr)
def test_a_reward_that_is_no_finite_number_is_refused(value):
    with pytest.raises(InputError, match="a reward must be a finite number"):
        finite_reward("reward", value)


class Sleeper(gymnasium.Wrapper):
    def step(self, action):
        time.sleep(0.02)
        return self.env.step(action)


def test_the_wall_clock_measures_what_a_step_takes_and_nothing_else():
    env = WallClock(Sleeper(gymnasium.make("CartPole-v1")))
    env.reset(seed=0)
    _, reward, _, _, info = env.step(0)
    assert info["seconds"] >= 0.02
    assert reward == 1.0


def test_the_policys_thinking_is_not_measured(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class Takes(gymnasium.Wrapper):
        def step(self, action):
            now[0] += 0.25
            return self.env.step(action)

    env = WallClock(Takes(gymnasium.make("CartPole-v1")))
    env.reset(seed=0)
    for thinking in (3.0, 50.0):
        assert env.step(0)[4]["seconds"] == 0.25
        now[0] += thinking


def test_measured_time_is_never_less_than_the_floor():
    env = WallClock(gymnasium.make("CartPole-v1"), floor_seconds=5.0)
    env.reset(seed=0)
    assert env.step(0)[4]["seconds"] == 5.0
    with pytest.raises(InputError, match="floor_seconds = 0"):
        WallClock(gymnasium.make("CartPole-v1"), floor_seconds=0)


def test_an_environment_with_seconds_of_its_own_is_not_measured_again(scripted):
    env = WallClock(scripted([1.0], [2.0]))
    env.reset()
    with pytest.raises(InputError, match="remove WallClock, or put it inside"):
        env.step(0)


def test_a_measured_environment_passes_gymnasiums_checker_as_nondeterministic():
    env = WallClock(gymnasium.make("CartPole-v1"))
    assert env.spec.nondeterministic
    assert not gymnasium.spec("CartPole-v1").nondeterministic
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*(different from the unwrapped version|Box observation space m)"
        )  # it is a wrapper
        check_env(env, skip_render_check=True)
    assert isinstance(gymnasium.make(env.spec), WallClock)


def test_the_check_adds_up_the_seconds_and_goes_on_after_the_end_of_an_episode(scripted):
    assert check_timed(scripted([1.0, 2.0, 3.0], [0.5, 1.0, 1.5]), steps=6) == 6.0
    for name in REFERENCE:
        assert check_timed(gymnasium.make(name)) > 0
        assert isinstance(gymnasium.make(name).unwrapped, TimedEnv)


def test_the_check_names_the_step_that_breaks_the_convention(scripted):
    with pytest.raises(InputError, match=r"info\['seconds'\] of step 1 = nan"):
        check_timed(scripted([1.0, 1.0], [1.0, math.nan]))
    with pytest.raises(InputError, match=r"reward of step 1 = inf"):
        check_timed(scripted([1.0, math.inf], [1.0, 1.0]))
    with pytest.raises(InputError, match=r"info\['seconds'\] of step 0 = None"):
        check_timed(gymnasium.make("CartPole-v1"))
