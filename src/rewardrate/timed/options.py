"""Actions of variable length in any environment: the agent chooses an action and its length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.core import ObsType
from gymnasium.utils import RecordConstructorArgs

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError
from rewardrate.timed.convention import KEY, finite_reward, positive_seconds, single
from rewardrate.timed.wrapper import refuse_priced

STEPS = "steps"


class OptionsWrapper(gymnasium.Wrapper[ObsType, Any, ObsType, Any], RecordConstructorArgs):
    """An action is (action, length): the inner action is repeated `lengths[length]` times, or until the episode ends.

    Rewards are added up. info["seconds"] are the inner steps' own where the environment gives them, else one second
    a step; `step_seconds` says otherwise. info["steps"] counts the inner steps taken. lengths=(4,) is a frame skip.
    The action space is MultiDiscrete over discrete actions (what Stable-Baselines3 takes), else a Tuple.
    An option in the sense of Sutton, Precup and Singh (1999): open loop, of fixed length.
    """

    def __init__(
        self,
        env: gymnasium.Env[ObsType, Any],
        lengths: Sequence[int] = (1, 2, 4, 8),
        *,
        step_seconds: float | None = None,
    ) -> None:
        refuse_priced(single(env, "give it to make_vec: wrappers=[timed.OptionsWrapper]"), "price the options instead")
        RecordConstructorArgs.__init__(self, lengths=lengths, step_seconds=step_seconds)
        gymnasium.Wrapper.__init__(self, env)
        self.lengths = _lengths(lengths)
        positive = "be finite and positive, or None"
        self.step_seconds = (
            None if step_seconds is None else finite("step_seconds", step_seconds, lambda number: number > 0, positive)
        )
        inner = env.action_space
        self._start = int(inner.start) if isinstance(inner, spaces.Discrete) else 0
        self.action_space = (
            spaces.MultiDiscrete([int(inner.n), len(self.lengths)])
            if isinstance(inner, spaces.Discrete)
            else spaces.Tuple((inner, spaces.Discrete(len(self.lengths))))
        )

    def step(self, action: Any) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Repeat the inner action; the sum of its rewards and seconds."""
        inner, length = self._pair(action)
        total, times, steps = 0.0, list[Any](), 0
        terminated = truncated = False
        while steps < self.lengths[length] and not (terminated or truncated):
            observation, reward, terminated, truncated, info = self.env.step(inner)
            total += finite_reward("reward", reward)
            times.append(info.get(KEY))
            steps += 1
            if STEPS in info:
                raise InputError(
                    f"info[{STEPS!r}]", info[STEPS], "the wrapper writes this entry itself", "rename yours"
                )
        return observation, total, terminated, truncated, {**info, KEY: self._seconds(times), STEPS: steps}

    def _pair(self, action: Any) -> tuple[Any, int]:
        """The inner action and the index of a length, checked."""
        discrete = isinstance(self.action_space, spaces.MultiDiscrete)
        pair = np.asarray(action) if discrete else action
        if not self.action_space.contains(pair) or (discrete and pair.dtype.kind not in "iu"):
            rule = f"it must be (action, index of a length) in {self.action_space}"
            inner = self.env.action_space
            raise InputError("action", action, rule, _type_of(inner) if isinstance(inner, spaces.Box) else "")
        return (np.int64(pair[0]) + self._start if discrete else pair[0]), int(pair[1])

    def _seconds(self, times: list[Any]) -> float:
        if self.step_seconds is not None:
            return self.step_seconds * len(times)
        if all(value is None for value in times):
            return float(len(times))
        if any(value is None for value in times):
            rule = f"only some of {len(times)} inner steps give their seconds"
            raise InputError(f"info[{KEY!r}]", None, rule, "give all or none, or set step_seconds")
        return sum(positive_seconds(f"info[{KEY!r}]", value) for value in times)


def _type_of(space: spaces.Box) -> str:
    return f"an array needs the type {space.dtype}"


def _lengths(lengths: Any) -> tuple[int, ...]:
    if isinstance(lengths, str) or not isinstance(lengths, (Sequence, np.ndarray)) or not len(lengths):
        raise InputError("lengths", lengths, "it must be a list of whole numbers", "for a frame skip of 4: (4,)")
    found = tuple(at_least(f"lengths[{i}]", length, 1) for i, length in enumerate(lengths))
    if len(set(found)) < len(found):
        raise InputError("lengths", lengths, "a length is given twice")
    return found
