"""The wrapper that prices time in a vector environment, whichever way it resets its environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from rewardrate.errors import InputError, did_you_mean
from rewardrate.rates import Estimator
from rewardrate.timed.convention import KEY, finite_reward, positive_seconds
from rewardrate.timed.price import Price, price_for
from rewardrate.timed.wrapper import refuse_priced, refuse_reserved_keys

if TYPE_CHECKING:
    Base = VectorWrapper[Any, Any, Any, Any, Any]
else:
    Base = VectorWrapper  # before Gymnasium 1.4 it takes no parameters

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class RewardRateVectorWrapper(Base):
    """Gives reward - rate * seconds in each environment, at one price for all; each environment is a chain.

    info keeps "reward", "seconds", "rate" and "differential_return", arrays with the masks that Gymnasium uses. Where
    the seconds stand depends on how environments that have ended are reset (`autoreset`; None: what the metadata say):

        NextStep   the step after the end only resets: nothing is earned, nothing charged
        SameStep   the last step's seconds stand in info["final_info"]
        Disabled   the caller resets; a step before that is refused

    The modes are those of Gymnasium 1.1 and later; for an environment that declares none, give it.
    """

    def __init__(
        self,
        env: Any,
        price: Price | Estimator | str | None = None,
        *,
        autoreset: AutoresetMode | str | None = None,
    ) -> None:
        if not isinstance(env, VectorEnv):
            rule, remedy = "it must be a gymnasium.vector.VectorEnv", "use RewardRateWrapper for a single environment"
            raise InputError("env", env, rule, remedy)
        refuse_priced(env)
        super().__init__(env)
        self.autoreset = _mode(env.metadata, autoreset)
        self.price = price_for(price, env.num_envs)
        self.differential_return = np.zeros(env.num_envs)
        self._ended = np.zeros(env.num_envs, dtype=bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of options["reset_mask"]; the price stays."""
        mask = (options or {}).get("reset_mask")
        found = self.env.reset(seed=seed, options=options)
        where = np.ones(self.num_envs, bool) if mask is None else np.asarray(mask, dtype=bool)
        self._ended[where] = False
        self.differential_return[where] = 0.0
        return found

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all and charge each for its time. Missing or impossible seconds raise InputError, naming the row."""
        before = self._ended
        if self.autoreset is AutoresetMode.DISABLED and before.any():
            remedy = "reset them first: env.reset(options={'reset_mask': mask})"
            raise InputError("environments", np.flatnonzero(before).tolist(), "their episodes have ended", remedy)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        refuse_reserved_keys(info)
        if self.autoreset is AutoresetMode.SAME_STEP and isinstance(info.get("final_info"), Mapping):
            refuse_reserved_keys(info["final_info"], "info['final_info']")
        ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
        here = ~before if self.autoreset is AutoresetMode.NEXT_STEP else np.ones(self.num_envs, bool)
        earned = self._rewards(reward, here)
        seconds = self._seconds(info, here, ended)
        rate = self.price.rate
        left = np.zeros(self.num_envs)
        left[here] = self.price.relative(earned[here], seconds[here])
        self.price.add(earned[here], seconds[here], np.flatnonzero(here))
        self.differential_return = np.where(before, 0.0, self.differential_return) + left
        self._ended = ended.copy()
        written = {"reward": earned, KEY: seconds, "rate": np.full(self.num_envs, rate)}
        written["differential_return"] = self.differential_return.copy()
        masks = {f"_{key}": here.copy() for key in written}
        if self.autoreset is AutoresetMode.SAME_STEP:
            self.differential_return[ended] = 0.0
        return observation, left, terminated, truncated, {**info, **written, **masks}

    def _rewards(self, reward: Any, here: Mask) -> Array:
        column = np.asarray(reward)
        if column.shape != (self.num_envs,):
            raise InputError("reward", f"shape {column.shape}", f"it must be {self.num_envs} numbers")
        return np.array([finite_reward(f"reward[{i}]", column[i]) if here[i] else 0.0 for i in range(self.num_envs)])

    def _seconds(self, info: Mapping[str, Any], here: Mask, ended: Mask) -> Array:
        """Seconds of the environments that took a step; 0 elsewhere."""
        seconds = np.zeros(self.num_envs)
        final = self.autoreset is AutoresetMode.SAME_STEP
        for i in np.flatnonzero(here):
            last = final and bool(ended[i])
            place, source = ("info['final_info']", info.get("final_info")) if last else ("info", info)
            seconds[i] = _entry(place, source, int(i), self.num_envs)
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """The price, as plain JSON."""
        return self.price.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved price; one of other settings, or damaged, is refused and nothing changes."""
        self.price.load_state_dict(state)


def _entry(place: str, source: Any, row: int, rows: int) -> float:
    """Seconds of one environment from a vector info."""
    field = f"{place}[{KEY!r}][{row}]"
    found = source if isinstance(source, Mapping) else {}
    column, present = found.get(KEY), found.get(f"_{KEY}")
    if column is not None and np.shape(column)[:1] != (rows,):
        rule = f"it must hold the seconds of {rows} environments, one for each"
        raise InputError(f"{place}[{KEY!r}]", column, rule, f"for one clock: np.full({rows}, seconds)")
    if present is not None and not present[row]:
        column = None
    if column is None:
        rule = "a timed environment puts the seconds of every step there"
        remedy = "add them in step(), or measure: gymnasium.make_vec(..., wrappers=[timed.WallClock])"
        raise InputError(field, None, rule, remedy)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        rule = "an array of whole numbers: Gymnasium makes one, and cuts all seconds, when the first are an int"
        raise InputError(field, int(column[row]), rule, "give float(seconds) in the environment")
    return positive_seconds(field, column[row])


def _mode(metadata: Mapping[str, Any], given: AutoresetMode | str | None) -> AutoresetMode:
    declared = metadata.get("autoreset_mode")
    names = {mode.value: mode for mode in AutoresetMode}
    mode = declared if given is None else given
    if isinstance(mode, str):
        mode = names.get(mode, mode)
    if isinstance(mode, AutoresetMode):
        if isinstance(declared, AutoresetMode) and declared is not mode:
            raise InputError("autoreset", given, f"the environment uses {declared.value!r}", "leave it out")
        return mode
    if mode is None:
        rule = "the environment's metadata do not say how it resets ended episodes"
        raise InputError("autoreset", None, rule, f"give one of {', '.join(names)}")
    raise InputError("autoreset", mode, "there is no such mode", did_you_mean(str(mode), names))
