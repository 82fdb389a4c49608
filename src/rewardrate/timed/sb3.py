"""Stable-Baselines3: price a vectorised environment and its replay buffer; save the price with the model.

Stable-Baselines3 (and torch with it) is imported when one of the classes in `_CLASSES` is first asked for.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rewardrate.checks import at_least
from rewardrate.errors import InputError, MissingExtra
from rewardrate.timed.convention import KEY, finite_reward, seconds_in
from rewardrate.timed.price import Price, price_for
from rewardrate.timed.replay import BASES, RepricedRewards, make_buffer
from rewardrate.timed.wrapper import MOVING_SCALE, NORMALIZE, RewardRateWrapper, refuse_reserved_keys

EXTENSION = ".rate.json"
Place = str | os.PathLike[str] | None


class HasPrice(Protocol):
    """A `Price`, or a wrapper around one."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as plain JSON."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""


def rate_file(model: str | os.PathLike[str]) -> Path:
    """File of a model's price: model.zip -> model.rate.json."""
    path = Path(model)
    return path.with_name(path.name.removesuffix(".zip") + EXTENSION)


def save_rate(price: HasPrice, model: str | os.PathLike[str]) -> Path:
    """Write the price beside the model, atomically; returns the file."""
    target = rate_file(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + f".{os.getpid()}.part")
    part.write_text(json.dumps(price.state_dict(), allow_nan=False), encoding="utf-8")
    part.replace(target)
    return target


def load_rate(price: HasPrice, model: str | os.PathLike[str]) -> None:
    """Restore the price that was saved beside the model. A missing or damaged file is an InputError."""
    path = rate_file(model)
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        rule, remedy = f"it cannot be read ({error.strerror})", "save it with save_rate or RateCallback"
        raise InputError("rate file", str(path), rule, remedy) from None
    except ValueError:
        raise InputError("rate file", str(path), "it is not JSON, or truncated", "use an older checkpoint") from None
    price.load_state_dict(state)


def _callback() -> type:
    try:
        from stable_baselines3.common.callbacks import BaseCallback
    except ImportError:
        raise MissingExtra("RateCallback", "stable-baselines3", "gym") from None

    class RateCallback(BaseCallback):
        """Logs the price of a second and the mean of the estimate, and saves the model with its price.

        model.zip and model.rate.json stand at `path`, written every `every` rollouts and at the end; path=None saves
        nothing. Rollouts shorter than a round of the price (DQN: four steps) are counted by rounds. An off-policy
        algorithm whose buffer keeps old prices causes a warning. `load` names a model whose price is restored when
        training first starts; later calls of `learn` with the same callback keep the price as it is then. `price`
        is the `Price`, or the wrapper, that the environments of the model use.
        """

        def __init__(self, price: HasPrice, path: Place = None, *, every: int = 10, load: Place = None) -> None:
            super().__init__()
            if not (hasattr(price, "state_dict") and hasattr(price, "load_state_dict")):
                raise InputError("price", price, "it must be a Price, or a wrapper that has one")
            self.saved, self.path, self.load = price, path, load
            self.every, self.rollouts = at_least("every", every, 1), 0
            self.loaded, self._counted, self._saved_at = False, 0, -1

        def _on_training_start(self) -> None:
            price: Any = getattr(self.saved, "price", self.saved)
            if price.estimator.adapts:
                _warn_of_old_prices(self.model)
            self._counted, self._saved_at = self.model.num_timesteps, -1  # a second `learn` counts from 0 again
            if self.load is not None and not self.loaded:
                load_rate(self.saved, self.load)
                self.loaded = True

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            price: Any = getattr(self.saved, "price", self.saved)
            self.logger.record("rewardrate/rate", price.rate)
            self.logger.record("rewardrate/mean", price.estimate.mean)
            if self.num_timesteps - self._counted < price.every:
                return
            self.rollouts, self._counted = self.rollouts + 1, self.num_timesteps
            if self.rollouts % self.every == 0:
                self.save()

        def _on_training_end(self) -> None:
            if self._saved_at != self.num_timesteps:
                self.save()

        def save(self) -> None:
            """Model and price, now."""
            if self.path is not None:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
                self.model.save(Path(self.path))
                save_rate(self.saved, self.path)
                self._saved_at = self.num_timesteps

    return RateCallback


def _warn_of_old_prices(model: Any) -> None:
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    if isinstance(model, OffPolicyAlgorithm) and not isinstance(model.replay_buffer, RepricedRewards):
        plain = type(model.replay_buffer).__name__
        kind = next((name for name, base in BASES.items() if base == plain), "RewardRateReplayBuffer")
        rule = f"{type(model).__name__} learns from stored rewards, which keep the price at which they were stored"
        remedy = f"pass replay_buffer_class=timed.sb3.{kind}, which charges the present price"
        warnings.warn(f"{rule}; {remedy}", stacklevel=2)


def _refuse_environments(venv: Any) -> None:
    """Refuse environments, here or in other processes, that charge for time or rescale rewards themselves."""
    if any(venv.env_is_wrapped(NORMALIZE)):
        raise InputError("venv", venv, MOVING_SCALE, "use VecNormalize outside instead of NormalizeReward")
    if any(venv.env_is_wrapped(RewardRateWrapper)):
        raise InputError("venv", venv, "its environments charge for time already", "wrap it once")


def _vec_env() -> type:
    try:
        from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize
    except ImportError:
        raise MissingExtra("RewardRateVecEnv", "stable-baselines3", "gym") from None

    class RewardRateVecEnv(VecEnvWrapper):
        """Gives reward - rate * seconds, at one price for all environments; they may live in processes of their own.

        infos keep "reward", "seconds", "rate" and "differential_return" (since the episode's start), as in
        `RewardRateWrapper`. VecNormalize goes outside of it: the rate is in the units of the rewards that it gets.
        """

        def __init__(self, venv: Any, price: Any = None) -> None:
            if not isinstance(venv, VecEnv):
                rule, remedy = "it must be a VecEnv of Stable-Baselines3", "make one with make_vec_env"
                raise InputError("venv", venv, rule, remedy)
            inner = venv
            while isinstance(inner, VecEnvWrapper):
                if isinstance(getattr(inner, "price", None), Price):
                    raise InputError("venv", inner, "it charges for time already", "wrap it once")
                if isinstance(inner, VecNormalize) and inner.norm_reward:
                    remedy = "put VecNormalize outside, or give it norm_reward=False"
                    raise InputError("venv", inner, MOVING_SCALE, remedy)
                inner = inner.venv
            _refuse_environments(venv)
            super().__init__(venv)
            self.price = price_for(price, self.num_envs)
            self.differential_return = np.zeros(self.num_envs)

        def reset(self) -> Any:
            """Reset all; the price stays."""
            self.differential_return = np.zeros(self.num_envs)
            return self.venv.reset()

        def step_wait(self) -> Any:
            """Charge each environment for its time."""
            observation, reward, done, infos = self.venv.step_wait()
            for info in infos:
                refuse_reserved_keys(info)
            earned = np.array([finite_reward(f"reward[{i}]", value) for i, value in enumerate(reward)])
            seconds = np.array([seconds_in(info, f"infos[{i}][{KEY!r}]") for i, info in enumerate(infos)])
            rate, relative = self.price.rate, self.price.relative(earned, seconds)
            self.price.add(earned, seconds, np.arange(self.num_envs))
            self.differential_return += relative
            for i, info in enumerate(infos):
                info.update({"reward": float(earned[i]), KEY: float(seconds[i]), "rate": rate})
                info["differential_return"] = float(self.differential_return[i])
            self.differential_return[done] = 0.0
            return observation, relative.astype(np.float32), done, infos

        def state_dict(self) -> dict[str, Any]:
            """The price, as plain JSON."""
            return self.price.state_dict()

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            """Restore a saved price."""
            self.price.load_state_dict(state)

    return RewardRateVecEnv


_CLASSES: dict[str, Callable[[], type]] = {
    "RateCallback": _callback,
    "RewardRateVecEnv": _vec_env,
    **{name: partial(make_buffer, name) for name in BASES},
}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _CLASSES[name]()
    return made
