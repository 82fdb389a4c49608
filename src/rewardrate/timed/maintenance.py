"""Machine maintenance: run a machine that gets slower as it wears, service it, or overhaul it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least
from rewardrate.timed.reference import ReferenceEnv, Transition, not_negative, pair, positive, probability

Array = NDArray[np.float64]
RUN, SERVICE, OVERHAUL = 0, 1, 2


class MachineMaintenance(ReferenceEnv):
    """State: wear, 0 (new) to `levels` - 1. A job on worn parts is a little worse and much slower.

        run       earns 1 - 0.03 wear in 1 + 0.5 wear seconds; wear grows by one with probability `worsens`
                  or it breaks down (up to `breaks`, in proportion to wear): nothing earned, `down` seconds, then new
        service   takes two levels off, in 2.5 s
        overhaul  makes it new, in 4 s

    Each action is one step, so by reward alone it hardly pays to stop for maintenance; by the clock it does.
    Times of jobs and repairs vary (a gamma distribution, spread one half).
    """

    action_names: ClassVar = ("run", "service", "overhaul")

    def __init__(
        self,
        *,
        levels: int = 6,
        slower: float = 0.5,
        worse: float = 0.03,
        worsens: float = 0.5,
        breaks: float = 0.05,
        seconds: tuple[float, float] = (2.5, 4.0),
        down: float = 15.0,
        render_mode: str | None = None,
    ) -> None:
        self.levels = at_least("levels", levels, 2)
        self.slower, self.worse = not_negative("slower", slower), not_negative("worse", worse)
        self.worsens, self.breaks = probability("worsens", worsens), probability("breaks", breaks)
        self.service, self.overhaul = pair("seconds", seconds, "service, overhaul", positive)
        self.down = positive("down", down)
        super().__init__(self.levels, render_mode=render_mode)

    def chance(self, wear: int) -> float:
        """Probability that a job breaks the machine."""
        return self.breaks * wear / (self.levels - 1)

    def tables(self) -> tuple[Array, Array, Array]:
        """Means of `draw`."""
        transition = np.zeros((self.levels, 3, self.levels))
        reward, seconds = np.zeros((self.levels, 3)), np.zeros((self.levels, 3))
        for wear in range(self.levels):
            fails = self.chance(wear)
            transition[wear, RUN, 0] += fails
            transition[wear, RUN, min(wear + 1, self.levels - 1)] += (1 - fails) * self.worsens
            transition[wear, RUN, wear] += (1 - fails) * (1 - self.worsens)
            transition[wear, SERVICE, max(wear - 2, 0)] = transition[wear, OVERHAUL, 0] = 1.0
            reward[wear, RUN] = (1 - fails) * (1 - self.worse * wear)
            job = (1 - fails) * (1 + self.slower * wear) + fails * self.down
            seconds[wear] = job, self.service, self.overhaul
        return transition, reward, seconds

    def draw(self, state: int, action: int, rng: np.random.Generator) -> Transition:
        """A job, which may break the machine, or a repair."""
        varies = rng.gamma(4.0, 0.25)  # mean 1, spread one half
        if action == SERVICE:
            return Transition(max(state - 2, 0), 0.0, self.service * varies)
        if action == OVERHAUL:
            return Transition(0, 0.0, self.overhaul * varies)
        if rng.random() < self.chance(state):
            return Transition(0, 0.0, self.down * varies)
        worn = min(state + 1, self.levels - 1) if rng.random() < self.worsens else state
        return Transition(worn, 1 - self.worse * state, (1 + self.slower * state) * varies)
