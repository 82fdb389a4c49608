"""Replay buffers of Stable-Baselines3 that charge stored steps the present price, not the price when they were stored.

Stable-Baselines3 is imported when a buffer is first asked for (`timed.sb3`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewardrate.errors import InputError, MissingExtra
from rewardrate.timed.convention import KEY

BASES = {
    "RewardRateReplayBuffer": "ReplayBuffer",
    "RewardRateDictReplayBuffer": "DictReplayBuffer",
    "RewardRateNStepReplayBuffer": "NStepReplayBuffer",
}
TOLERANCE = 1e-4  # between a reward in 32 bits and what its info says


class RepricedRewards:
    """Mixin for a replay buffer whose rewards follow the price.

    Stores what each step earned and its seconds, from the info that a pricing wrapper writes, and before sampling
    rewrites all rewards if the price has moved since:

        rewards = earned - rate * seconds

    `rate` is what the latest step was charged, so the buffer needs no `Price`.
    """

    buffer_size: int
    n_envs: int
    pos: int
    full: bool
    rewards: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.earned = np.zeros((self.buffer_size, self.n_envs))
        self.seconds = np.zeros((self.buffer_size, self.n_envs))
        self.rate = self._charged = 0.0

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
        """Store a step of each environment, with its reward and seconds."""
        earned, seconds = (np.array([_entry(info, key) for info in infos]) for key in ("reward", KEY))
        rates = np.array([_entry(info, "rate") for info in infos])
        assert earned.shape == seconds.shape == (self.n_envs,)
        _check_reward(reward, earned, rates * seconds)
        self.earned[self.pos], self.seconds[self.pos], self.rate = earned, seconds, float(rates[-1])
        super().add(obs=obs, next_obs=next_obs, action=action, reward=reward, done=done, infos=infos)  # type: ignore[misc]

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Sample steps, charged at the present price."""
        if self.rate != self._charged:
            here = slice(self.buffer_size if self.full else self.pos)
            self.rewards[here] = self.earned[here] - self.rate * self.seconds[here]
            self._charged = self.rate
        return super().sample(*args, **kwargs)  # type: ignore[misc]


def make_buffer(name: str) -> type:
    """The class of this name, derived from that of Stable-Baselines3."""
    try:
        from stable_baselines3.common import buffers
    except ImportError:
        raise MissingExtra(name, "stable-baselines3", "gym") from None
    base = getattr(buffers, BASES[name])
    about = f"{BASES[name]} whose rewards follow the price of a second; see `RepricedRewards`."
    return type(name, (RepricedRewards, base), {"__doc__": about, "__module__": "rewardrate.timed.sb3"})


def _entry(info: Mapping[str, Any], key: str) -> float:
    if key not in info:
        rule = "a buffer that follows the price needs the entries of a pricing wrapper"
        raise InputError(f"infos[{key!r}]", None, rule, "wrap the environment in RewardRateVecEnv or RewardRateWrapper")
    return float(info[key])


def _check_reward(reward: Sequence[float], earned: Any, charge: Any) -> None:
    """Refuse a reward that was changed after pricing: rewriting it would silently undo the change."""
    given = np.asarray(reward, dtype=float)
    off = np.abs(given - (earned - charge)) > TOLERANCE * np.maximum(1e-6, np.maximum(np.abs(earned), np.abs(charge)))
    if off.any():
        row = int(np.flatnonzero(off)[0])
        rule = f"it is not reward - rate * seconds ({(earned - charge)[row]:g}): it was changed outside of the price"
        remedy = "change rewards inside, or use VecNormalize outside"
        raise InputError(f"reward[{row}]", float(given[row]), rule, remedy)
