"""Running totals of reward and seconds, one pair per chain: what the rate is fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.errors import InputError
from rewardrate.rates.estimate import Estimator, RateEstimate
from rewardrate.rates.rows import Invalid, check_invalid, check_rows, check_valid

Array = NDArray[np.float64]


class Accumulators:
    """Totals per chain, fed in one of two ways.

    `update` (the agent): one row for every chain, each step. Totals run from the first step, as in the paper, or over
    the last `window` steps. `feed` (the bandit's slots): one sample at a time, round-robin, only when it was greedy;
    a slot older than `age` steps restarts from zero at its next turn.

    `fit` hands an estimator the rows it expects: totals, or the single attempts since the previous fit.
    Shapes: C chains, W window.
    """

    def __init__(
        self, chains: int, *, window: int | None = None, age: int | None = None, invalid: Invalid = "zero"
    ) -> None:
        for name, value in {"chains": chains, "window": window, "age": age}.items():
            if value is not None and not (isinstance(value, int | np.integer) and value >= 1):
                raise InputError(name, value, "it must be a whole number, at least 1")
        if window is not None and age is not None:
            raise InputError(
                "window, age", (window, age), "a window is for `update`, an age for `feed`; give one of them"
            )
        self.chains, self.window, self.age = int(chains), window, age
        self.invalid = check_invalid(invalid)
        self.reward = np.zeros(self.chains)
        self.seconds = np.zeros(self.chains)
        self._recent: list[tuple[Array, Array]] = []  # the window's steps, oldest first
        self._born = np.zeros(self.chains, dtype=np.int64)  # step at which a slot last started from zero
        self._turn = 0
        self._fresh: list[tuple[Array, Array]] = []  # attempts since the previous fit
        self._fitted = False

    def update(self, reward: ArrayLike, seconds: ArrayLike, valid: ArrayLike | None = None) -> Self:
        """Add one step: row i to chain i. A bad row raises InputError and nothing is added."""
        if self.age is not None:
            raise InputError("age", self.age, "age-bounded slots take samples one at a time", "use feed()")
        rows = check_rows(reward, seconds, None, self.invalid)
        if rows.reward.size != self.chains:
            raise InputError(
                "reward", f"{rows.reward.size} rows", f"there are {self.chains} chains, and each needs its row"
            )
        mask = np.ones(self.chains, bool) if valid is None else check_valid(valid, self.chains)
        reward_c = np.where(mask, rows.reward, 0.0)
        seconds_c = rows.seconds if self.invalid == "zero" else np.where(mask, rows.seconds, 0.0)
        if self.window is None:
            self.reward, self.seconds = self.reward + reward_c, self.seconds + seconds_c
        else:
            self._recent = [*self._recent, (reward_c, seconds_c)][-self.window :]
            self.reward = np.sum([step[0] for step in self._recent], axis=0)
            self.seconds = np.sum([step[1] for step in self._recent], axis=0)
        kept = seconds_c > 0
        self._remember(reward_c[kept], seconds_c[kept])
        return self

    def feed(self, reward: float, seconds: float, *, step: int, greedy: bool = True, valid: bool = True) -> bool:
        """Add one sample to the slot whose turn it is; True if it was taken.

        A sample that was not greedy is passed over (the estimate describes the greedy policy) and does not use up a
        turn; neither does an invalid one under invalid="exclude".
        """
        if self.window is not None:
            raise InputError("window", self.window, "windows take whole steps", "use update()")
        rows = check_rows(reward, seconds, [valid], self.invalid)
        if not greedy or rows.reward.size == 0:
            return False
        slot = self._turn
        empty = self.seconds[slot] == 0
        if empty or (self.age is not None and step - self._born[slot] > self.age):
            self.reward[slot] = self.seconds[slot] = 0.0
            self._born[slot] = step
        self.reward[slot] += rows.reward[0]
        self.seconds[slot] += rows.seconds[0]
        self._turn = (slot + 1) % self.chains
        self._remember(rows.reward, rows.seconds)
        return True

    def fit(self, estimator: Estimator) -> RateEstimate:
        """Update `estimator` with the rows it expects. Call it once per estimator after an update."""
        self._fitted = True
        if estimator.feeds == "totals":
            filled = self.seconds > 0
            return estimator.update(self.reward[filled], self.seconds[filled])
        if not self._fresh:
            return estimator.estimate
        return estimator.update(*(np.concatenate(column) for column in zip(*self._fresh, strict=True)))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as plain JSON."""
        return {
            "settings": {"chains": self.chains, "window": self.window, "age": self.age, "invalid": self.invalid},
            "reward": self.reward.tolist(),
            "seconds": self.seconds.tolist(),
            "recent": [[reward.tolist(), seconds.tolist()] for reward, seconds in self._recent],
            "born": self._born.tolist(),
            "turn": self._turn,
            "fresh": [[reward.tolist(), seconds.tolist()] for reward, seconds in self._fresh],
            "fitted": self._fitted,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; one with other settings is refused and nothing is changed."""
        mine = self.state_dict()["settings"]
        if state.get("settings") != mine:
            raise InputError("state.settings", state.get("settings"), f"these accumulators have {mine}")
        try:
            reward, seconds = np.array(state["reward"], dtype=float), np.array(state["seconds"], dtype=float)
            born = np.array(state["born"], dtype=np.int64)
            recent, fresh = (
                [(np.array(r, float), np.array(s, float)) for r, s in state[key]] for key in ("recent", "fresh")
            )
            turn, fitted = int(state["turn"]), bool(state["fitted"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("state", sorted(state), f"it cannot be restored ({error!r})") from None
        if not reward.shape == seconds.shape == born.shape == (self.chains,):
            raise InputError("state.reward", f"{reward.size} chains", f"these accumulators have {self.chains}")
        self.reward, self.seconds, self._born, self._turn = reward, seconds, born, turn
        self._recent, self._fresh, self._fitted = recent, fresh, fitted

    def _remember(self, reward: Array, seconds: Array) -> None:
        if self._fitted:
            self._fresh, self._fitted = [], False
        if reward.size:
            self._fresh.append((reward, seconds))
