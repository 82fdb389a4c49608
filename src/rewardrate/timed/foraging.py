"""Foraging: take another bite of a patch that gets empty, or travel to the next."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least
from rewardrate.timed.reference import ReferenceEnv, Transition, not_negative, pair, positive, probability

Array = NDArray[np.float64]
BITE, LEAVE = 0, 1


class Foraging(ReferenceEnv):
    """State: bites taken from the present patch (0 to `levels` - 1), and whether it is rich or poor.

    State number: bites in a rich patch, `levels` + bites in a poor one. A bite takes 1 s on average and yields
    `first` * `keeps` ^ bites; travelling takes `travel` seconds and leads to a rich or a poor patch. With probability
    `chased` a bite ends with having to leave. A journey is one step like a bite, so by reward alone one leaves far too
    early; by rate, when a bite brings less than the rate (Charnov's marginal value theorem, 1976).
    """

    action_names: ClassVar = ("bite", "leave")

    def __init__(
        self,
        *,
        levels: int = 8,
        first: tuple[float, float] = (1.0, 0.35),
        keeps: float = 0.65,
        travel: float = 10.0,
        rich: float = 0.5,
        chased: float = 0.02,
        render_mode: str | None = None,
    ) -> None:
        self.levels, self.travel = at_least("levels", levels, 1), positive("travel", travel)
        self.bites = pair("first", first, "the first bite of a rich patch, of a poor one", not_negative)
        self.keeps, self.rich = probability("keeps", keeps), probability("rich", rich)
        self.chased = probability("chased", chased)
        super().__init__(2 * self.levels, render_mode=render_mode)

    def tables(self) -> tuple[Array, Array, Array]:
        """Means of `draw`."""
        states = 2 * self.levels
        transition, reward, seconds = np.zeros((states, 2, states)), np.zeros((states, 2)), np.zeros((states, 2))
        fresh = np.zeros(states)
        fresh[0], fresh[self.levels] = self.rich, 1 - self.rich
        for state in range(states):
            transition[state, BITE] = self.chased * fresh
            transition[state, BITE, self._emptier(state)] += 1 - self.chased
            transition[state, LEAVE] = fresh
            reward[state, BITE] = self._yield(state)
            seconds[state] = 1 + self.chased * self.travel, self.travel
        return transition, reward, seconds

    def draw(self, state: int, action: int, rng: np.random.Generator) -> Transition:
        """A bite of exponential length, or a journey of gamma-distributed length."""
        journey = self.travel * rng.gamma(4.0, 0.25)
        patch = 0 if rng.random() < self.rich else self.levels
        if action == LEAVE:
            return Transition(patch, 0.0, journey)
        seconds = rng.exponential(1.0)
        if rng.random() < self.chased:
            return Transition(patch, self._yield(state), seconds + journey)
        return Transition(self._emptier(state), self._yield(state), seconds)

    def _emptier(self, state: int) -> int:
        return state if state % self.levels == self.levels - 1 else state + 1

    def _yield(self, state: int) -> float:
        return float(self.bites[state // self.levels] * self.keeps ** (state % self.levels))
