"""The convention: info["seconds"] has the seconds of a step, from the environment or measured by `WallClock`."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.utils import RecordConstructorArgs

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError

KEY = "seconds"


class TimedEnv(gymnasium.Env[ObsType, ActType]):
    """An environment whose actions take time: every `step` puts its seconds, finite and positive, into info["seconds"].

    Any environment that does so is timed; deriving from this class only declares it. One without a clock of its own is
    measured by `WallClock`. `check_timed` checks an environment.
    """


class WallClock(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType], RecordConstructorArgs):
    """Measures each step by the monotonic wall clock and writes info["seconds"], at least `floor_seconds`.

    Only the environment's step is timed, not the policy's. Measured time is noisy, so the wrapped
    environment counts as nondeterministic. An environment that already gives seconds is refused.
    """

    def __init__(self, env: gymnasium.Env[ObsType, ActType], *, floor_seconds: float = 1e-6) -> None:
        self.floor_seconds = finite("floor_seconds", floor_seconds, lambda number: number > 0, "be finite and positive")
        single(env, "give it to make_vec: wrappers=[timed.WallClock]")
        RecordConstructorArgs.__init__(self, floor_seconds=floor_seconds)
        gymnasium.Wrapper.__init__(self, env)

    @property
    def spec(self) -> Any:  # type: ignore[override]  # a property in gymnasium.Wrapper too
        """That of the environment, marked nondeterministic."""
        return nondeterministic(super().spec)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and measure it."""
        start = time.perf_counter()
        observation, reward, terminated, truncated, info = self.env.step(action)
        taken = time.perf_counter() - start
        if KEY in info:
            rule = "the environment gives its own seconds, so there is nothing to measure"
            remedy = "remove WallClock, or put it inside of the wrapper that gives seconds"
            raise InputError(f"info[{KEY!r}]", info[KEY], rule, remedy)
        return observation, reward, terminated, truncated, {**info, KEY: max(taken, self.floor_seconds)}


def single(env: Any, remedy: str) -> Any:
    """A single Gymnasium environment, or InputError with the remedy for a vector of them."""
    if isinstance(env, gymnasium.Env):
        return env
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    raise InputError("env", env, "it must be a gymnasium.Env, a single one", remedy if vector else "")


def nondeterministic(spec: Any) -> Any:
    """A spec that says that the same seed and actions need not give the same numbers."""
    if spec is not None:
        spec.nondeterministic = True  # Wrapper.spec has made a copy
    return spec


def seconds_in(info: Mapping[str, Any], field: str = f"info[{KEY!r}]") -> float:
    """The seconds of a step, checked: a finite positive number, or InputError, which names them `field`."""
    if KEY not in info:
        rule = "a timed environment puts the seconds of every step there"
        raise InputError(field, None, rule, "add them in step(), or wrap the environment in timed.WallClock")
    return positive_seconds(field, info[KEY])


def positive_seconds(field: str, value: Any) -> float:
    """A finite positive number of seconds; numpy's numbers and arrays of one entry are taken too."""
    number = as_number(value)
    if math.isfinite(number) and number > 0:
        return number
    remedy = "charge an instant action a small time" if number == 0 else "fix the environment's clock"
    raise InputError(field, plain(value), "seconds must be finite and positive", remedy)


def finite_reward(field: str, value: Any) -> float:
    """A finite reward, or InputError."""
    number = as_number(value)
    if math.isfinite(number):
        return number
    raise InputError(field, plain(value), "a reward must be a finite number", "fix the environment's reward")


def plain(value: Any) -> Any:
    """A number of numpy's, or an array of one, as Python's; anything else as it is."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value


def as_number(value: Any) -> float:
    """A float from a number or an array of one; NaN from anything else."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_timed(env: gymnasium.Env[Any, Any], *, steps: int = 100, seed: int = 0) -> float:
    """Take random actions and check every step; returns the seconds they took in total.

    InputError names the step that breaks it. Gymnasium's own `check_env` checks the rest.
    """
    steps = at_least("steps", steps, 1)
    env.action_space.seed(seed)
    env.reset(seed=seed)
    total = 0.0
    for step in range(steps):
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        finite_reward(f"reward of step {step}", reward)
        total += seconds_in(info, f"info[{KEY!r}] of step {step}")
        if terminated or truncated:
            env.reset()
    return total
