"""Running totals of reward and seconds, one pair per chain: what the rate is fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import at_least
from rewardrate.errors import InputError
from rewardrate.rates.estimate import Estimator, too_few
from rewardrate.rates.rows import Invalid, check_invalid, check_rows, check_valid, vector

Array = NDArray[np.float64]


class Accumulators:
    """Totals per chain, fed in one of two ways.

    `update` (the agent): one row for every chain, each step; `add`: rows of any chains, for chains that do not wait.
    Totals run from the first step, as in the paper, or over the last `window` steps. `feed` (the bandit's slots): one
    sample at a time, round-robin, only when it was greedy; a slot older than `age` steps restarts from zero at its
    next turn.

    `fit` hands an estimator the rows it expects: totals, or the single attempts since the previous fit.
    Shapes: C chains, W window.
    """

    def __init__(
        self, chains: int, *, window: int | None = None, age: int | None = None, invalid: Invalid = "zero"
    ) -> None:
        if window is not None and age is not None:
            raise InputError(
                "window, age", (window, age), "a window is for `update`, an age for `feed`; give one of them"
            )
        self.chains = at_least("chains", chains, 1)
        self.window = None if window is None else at_least("window", window, 1)
        self.age = None if age is None else at_least("age", age, 1)
        self.invalid = check_invalid(invalid)
        self.reward = np.zeros(self.chains)
        self.seconds = np.zeros(self.chains)
        self._recent: list[tuple[Array, Array]] = []  # the window's steps, oldest first
        self._born = np.zeros(self.chains, dtype=np.int64)  # step at which a slot last started from zero
        self._turn = 0
        self._fresh: list[tuple[Array, Array]] = []  # attempts since the previous fit
        self._fitted = False

    def update(
        self,
        reward: ArrayLike,
        seconds: ArrayLike,
        valid: ArrayLike | None = None,
        *,
        present: ArrayLike | None = None,
    ) -> Self:
        """Add one step: row i to chain i. A bad row raises InputError and nothing is added.

        `present` is false for a chain without an attempt in this step (sandbox failures are not charged): nothing
        is added to it, whatever stands in its row.
        """
        rows = vector("reward", reward).size
        if rows != self.chains:
            raise InputError("reward", f"{rows} rows", f"there are {self.chains} chains, and each needs its row")
        return self.add(np.arange(self.chains), reward, seconds, valid, present=present)

    def add(
        self,
        chain: ArrayLike,
        reward: ArrayLike,
        seconds: ArrayLike,
        valid: ArrayLike | None = None,
        *,
        present: ArrayLike | None = None,
    ) -> Self:
        """Like `update` for chains that do not wait: row j belongs to chain[j]; a chain may have many rows or none.

        A window counts these calls as steps; one without rows changes nothing.
        """
        if self.age is not None:
            raise InputError("age", self.age, "age-bounded slots take samples one at a time", "use feed()")
        chain_n = self._check_chains(chain)
        here = np.ones(chain_n.size, bool) if present is None else check_valid(present, chain_n.size)
        if not here.all():
            reward = np.where(here, vector("reward", reward), 0.0)
            seconds = np.where(here, vector("seconds", seconds), 1.0)
        rows = check_rows(reward, seconds, None, self.invalid)
        if rows.reward.size != chain_n.size:
            raise InputError("reward", f"{rows.reward.size} rows", f"chain has {chain_n.size}; they must be as many")
        if not chain_n.size:
            return self
        mask = here if valid is None else here & check_valid(valid, chain_n.size)
        reward_n = np.where(mask, rows.reward, 0.0)
        seconds_n = np.where(here if self.invalid == "zero" else mask, rows.seconds, 0.0)
        with np.errstate(over="ignore"):
            step_r, step_s = (_by_chain(chain_n, column, self.chains) for column in (reward_n, seconds_n))
            recent = self._recent
            if self.window is None:
                totals = self.reward + step_r, self.seconds + step_s
            else:
                recent = [*recent, (step_r, step_s)][-self.window :]
                totals = np.sum([one[0] for one in recent], axis=0), np.sum([one[1] for one in recent], axis=0)
        _check_totals(*totals)
        (self.reward, self.seconds), self._recent = totals, recent
        kept = seconds_n > 0
        self._remember(reward_n[kept], seconds_n[kept])
        return self

    def _check_chains(self, chain: ArrayLike) -> NDArray[np.int64]:
        found = np.atleast_1d(np.asarray(chain))
        if found.size and (found.ndim != 1 or found.dtype.kind not in "iu"):
            raise InputError("chain", chain, "it must be a vector of whole numbers, one for each row")
        wrong = (found < 0) | (found >= self.chains)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"chain[{row}]", int(found[row]), f"there are {self.chains} chains, counted from 0")
        return found.astype(np.int64)

    def feed(self, reward: float, seconds: float, *, step: int, greedy: bool = True, valid: bool = True) -> bool:
        """Add one sample to the slot whose turn it is; True if it was taken.

        A sample that was not greedy is passed over (the estimate describes the greedy policy) and does not use up a
        turn; neither does an invalid one under invalid="exclude".
        """
        if self.window is not None:
            raise InputError("window", self.window, "windows take whole steps", "use update()")
        rows = check_rows(reward, seconds, [valid], self.invalid)
        if not greedy or rows.reward.size == 0:
            self._remember(
                rows.reward[:0], rows.seconds[:0]
            )  # time has moved on: what was fitted is not fresh any more
            return False
        slot, step = self._turn, at_least("step", step, 0)
        restarts = self.seconds[slot] == 0 or (self.age is not None and step - self._born[slot] > self.age)
        kept = (0.0, 0.0) if restarts else (float(self.reward[slot]), float(self.seconds[slot]))
        totals = np.array([kept[0] + float(rows.reward[0]), kept[1] + float(rows.seconds[0])])
        _check_totals(totals[:1], totals[1:])
        self.reward[slot], self.seconds[slot] = totals
        if restarts:
            self._born[slot] = step
        self._turn = (slot + 1) % self.chains
        self._remember(rows.reward, rows.seconds)
        return True

    def fit(self, estimator: Estimator) -> RateEstimate:
        """Update `estimator` with the rows it expects. Call it once per estimator after an update.

        While fewer chains have a total than an estimator of totals needs, its estimate stays as it is; with fewer
        chains in all it never could change, which is an InputError.
        """
        if estimator.feeds == "totals":
            if self.chains < estimator.least_rows:
                raise too_few("chains", self.chains, estimator, "cut the stream into several chains")
            filled = self.seconds > 0
            if filled.sum() < estimator.least_rows:
                return estimator.estimate
            estimate = estimator.update(self.reward[filled], self.seconds[filled])
        elif self._fresh:
            estimate = estimator.update(*(np.concatenate(column) for column in zip(*self._fresh, strict=True)))
        else:
            return estimator.estimate
        self._fitted = True  # only now: rows that an estimator refused stay for the next
        return estimate

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
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
        """Resume from a saved state; one with other settings is refused and nothing is changed."""
        mine = self.state_dict()["settings"]
        if not isinstance(state, Mapping) or state.get("settings") != mine:
            saved = state.get("settings") if isinstance(state, Mapping) else state
            raise InputError("state.settings", saved, f"these accumulators have {mine}")
        try:
            reward, seconds = (_totals(state[name], self.chains) for name in ("reward", "seconds"))
            born = np.array(state["born"], dtype=np.int64)
            recent = [(_totals(r, self.chains), _totals(s, self.chains)) for r, s in state["recent"]]
            fresh = [(_totals(r, len(r)), _totals(s, len(r))) for r, s in state["fresh"]]
            turn, fitted = at_least("turn", state["turn"], 0), bool(state["fitted"])
            if born.shape != (self.chains,) or turn >= self.chains or len(recent) > (self.window or 0):
                raise ValueError("born, turn or recent do not fit the number of chains")
            if (seconds < 0).any():
                raise ValueError("seconds must not be negative")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError("state", sorted(state), f"it cannot be restored ({error})") from None
        self.reward, self.seconds, self._born, self._turn = reward, seconds, born, turn
        self._recent, self._fresh, self._fitted = recent, fresh, fitted

    def _remember(self, reward: Array, seconds: Array) -> None:
        if self._fitted:
            self._fresh, self._fitted = [], False
        if reward.size:
            self._fresh.append((reward, seconds))


def _check_totals(reward: Array, seconds: Array) -> None:
    for name, totals in (("reward", reward), ("seconds", seconds)):
        if not np.isfinite(totals).all():
            raise InputError(
                name, float(totals[~np.isfinite(totals)][0]), "its total does not fit 64-bit arithmetic", "rescale"
            )


def _by_chain(chain: NDArray[np.int64], values: Array, chains: int) -> Array:
    return np.asarray(np.bincount(chain, values, chains), dtype=np.float64)


def _totals(values: Any, size: int) -> Array:
    column = vector("totals", values)
    if column.shape != (size,) or not np.isfinite(column).all():
        raise ValueError(f"totals must be {size} finite numbers")
    return column
