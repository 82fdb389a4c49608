"""The wrapper that prices time in a single environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import gymnasium.wrappers.vector
import numpy as np
from gymnasium.core import ActType, ObsType
from gymnasium.utils import RecordConstructorArgs

from rewardrate.errors import InputError
from rewardrate.rates import Estimator
from rewardrate.timed.convention import KEY, finite_reward, nondeterministic, seconds_in, single
from rewardrate.timed.price import Price, as_price

WRITES = ("reward", "rate", "differential_return")
NORMALIZE = gymnasium.wrappers.NormalizeReward
MOVING_SCALE = "its rewards are rescaled while it runs, so their rate means nothing"


class RewardRateWrapper(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType], RecordConstructorArgs):
    """Gives reward - rate * seconds instead of reward; the rest of the environment is untouched.

    `price` is a `Price`, an estimator of `rates`, or the name of one; give several wrappers the same `Price` to
    share it. A step is charged the price before it. info keeps "reward" (as it was earned),
    "seconds", "rate" (what a second cost) and "differential_return" (relative reward since the last reset).
    The price outlives episodes; `state_dict` saves it. Paper, algorithm 1.
    """

    def __init__(self, env: gymnasium.Env[ObsType, ActType], price: Price | Estimator | str | None = None) -> None:
        refuse_priced(single(env, "use RewardRateVectorWrapper"))
        RecordConstructorArgs.__init__(self, price=price)
        gymnasium.Wrapper.__init__(self, env)
        self.price = as_price(price)
        self.differential_return = 0.0

    @property
    def spec(self) -> Any:  # type: ignore[override]  # a property in gymnasium.Wrapper too
        """The environment's; nondeterministic if the price adapts to what was seen."""
        return nondeterministic(super().spec) if self.price.estimator.adapts else super().spec

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the environment; the price stays."""
        self.differential_return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step and charge for the time it took. Missing or impossible seconds raise InputError."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        refuse_reserved_keys(info)
        earned, seconds, rate = finite_reward("reward", reward), seconds_in(info), self.price.rate
        relative = float(self.price.relative(np.array([earned]), np.array([seconds]))[0])
        self.price.add(earned, seconds)
        self.differential_return += relative
        added = {"reward": earned, KEY: seconds, "rate": rate, "differential_return": self.differential_return}
        return observation, relative, terminated, truncated, {**info, **added}

    def state_dict(self) -> dict[str, Any]:
        """The price, as plain JSON."""
        return self.price.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved price; one of other settings, or damaged, is refused and nothing changes."""
        self.price.load_state_dict(state)


def refuse_reserved_keys(info: Mapping[str, Any], place: str = "info") -> None:
    """Refuse an info with the keys that the wrapper writes: one of the two values would be lost."""
    for key in WRITES:
        if key in info:
            rule = "the wrapper writes this entry itself"
            raise InputError(f"{place}[{key!r}]", info[key], rule, "rename yours, or price time once")


def refuse_priced(env: Any, remedy: str = "wrap it once") -> None:
    """Refuse environments that charge for time already, or rescale their rewards while they run.

    A fixed change of the reward (TransformReward, ClipReward) is allowed: the rate is in its units.
    """
    inner = env
    while True:
        if isinstance(getattr(inner, "price", None), Price):
            raise InputError("env", inner, "it charges for time already", remedy)
        if isinstance(inner, (NORMALIZE, gymnasium.wrappers.vector.NormalizeReward)) or _normalizes(inner):
            raise InputError("env", inner, MOVING_SCALE, "put NormalizeReward outside of the price")
        if not isinstance(inner, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
            break
        inner = inner.env
    if isinstance(inner, gymnasium.vector.SyncVectorEnv):
        for one in inner.envs:
            refuse_priced(one, remedy)


def _normalizes(env: Any) -> bool:
    """Whether environments in other processes use NormalizeReward, seen by its attributes."""
    if not isinstance(env, gymnasium.vector.AsyncVectorEnv):
        return False
    names = ("return_rms", "discounted_reward")
    return all(any(env.call("has_wrapper_attr", name)) for name in names)
