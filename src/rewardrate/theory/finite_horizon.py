"""A decision problem with a deadline, solved exactly on a grid of whole seconds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.checks import at_least
from rewardrate.errors import InputError
from rewardrate.theory.tables import Array

Whole = NDArray[np.int64]


class DeadlineOptimum(NamedTuple):
    """Values and actions, T x S: by seconds left (0 .. T) and state."""

    value: Array
    action: Whole


class FiniteHorizon:
    """Attempts with two outcomes; what counts is the state at the deadline. S states, A actions, T seconds.

    Action a in state s takes seconds_SA[s, a] whole seconds. With probability chance_SA[s, a] the next state is
    success_SA[s, a], else failure_SA[s, a]. An attempt that would end after the deadline does not count:

        V(0, s) = final_S[s]
        V(t, s) = max over a of  chance * V(t - seconds, success) + (1 - chance) * V(t - seconds, failure)
                                 (final_S[s] where seconds > t)

    Bellman's equation for a semi-Markov decision process with a finite horizon: no discount, no rewards on the way.
    """

    def __init__(
        self, *, seconds: ArrayLike, chance: ArrayLike, success: ArrayLike, failure: ArrayLike, final: ArrayLike
    ) -> None:
        self.chance = np.array(chance, dtype=float)
        self.final = np.array(final, dtype=float)
        tables = {"seconds": seconds, "success": success, "failure": failure}
        self.seconds, self.success, self.failure = (_whole(name, table) for name, table in tables.items())
        shape = self.chance.shape
        if len(shape) != 2 or 0 in shape or self.final.shape != shape[:1]:
            raise InputError("chance, final", (shape, self.final.shape), "they must be states x actions, and states")
        for name, table in (("seconds", self.seconds), ("success", self.success), ("failure", self.failure)):
            if table.shape != shape:
                raise InputError(name, table.shape, f"it must have the shape of chance, {shape}")
        if not (np.isfinite(self.final).all() and (self.chance >= 0).all() and (self.chance <= 1).all()):
            raise InputError("chance, final", "a number in them", "chances lie in [0, 1], and final is finite")
        if (self.seconds < 1).any():
            raise InputError("seconds", int(self.seconds.min()), "an attempt takes at least one second of the grid")
        for name, table in (("success", self.success), ("failure", self.failure)):
            if (table < 0).any() or (table >= shape[0]).any():
                raise InputError(name, "a state in it", f"states are 0 to {shape[0] - 1}")

    def optimal(self, budget: int) -> DeadlineOptimum:
        """The best value and action (of equals the first) with 0 to `budget` seconds left."""
        value_TS, action_TS = self._empty(budget)
        for left in range(1, budget + 1):
            now_SA = self._backed_up(value_TS, left)
            action_TS[left] = now_SA.argmax(axis=1)
            value_TS[left] = now_SA.max(axis=1)
        return DeadlineOptimum(value_TS, action_TS)

    def value(self, action_TS: ArrayLike) -> Array:
        """The value of a rule: the action it takes with 0 .. T seconds left in each state."""
        chosen_TS = _whole("action", action_TS)
        states, actions = self.chance.shape
        if chosen_TS.ndim != 2 or chosen_TS.shape[1] != states or not len(chosen_TS):
            raise InputError("action", chosen_TS.shape, f"it must be seconds left x {states} states")
        if (chosen_TS < 0).any() or (chosen_TS >= actions).any():
            raise InputError("action", "one in it", f"actions are 0 to {actions - 1}")
        value_TS, _ = self._empty(len(chosen_TS) - 1)
        every = np.arange(states)
        for left in range(1, len(chosen_TS)):
            value_TS[left] = self._backed_up(value_TS, left)[every, chosen_TS[left]]
        return value_TS

    def _empty(self, budget: int) -> tuple[Array, Whole]:
        budget = at_least("budget", budget, 0)
        value_TS = np.zeros((budget + 1, self.final.size))
        value_TS[0] = self.final
        return value_TS, np.zeros(value_TS.shape, dtype=np.int64)

    def _backed_up(self, value_TS: Array, left: int) -> Array:
        """S x A: the value of each action with `left` seconds to go."""
        after_SA = left - self.seconds
        row_SA = np.maximum(after_SA, 0)
        gain_SA = value_TS[row_SA, self.success] - value_TS[row_SA, self.failure]
        expected_SA = value_TS[row_SA, self.failure] + self.chance * gain_SA
        return np.where(after_SA >= 0, expected_SA, self.final[:, None])


def _whole(name: str, table: Any) -> Whole:
    numbers = np.array(table)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(name, str(numbers.dtype), "it must hold whole numbers")
    return numbers.astype(np.int64)
