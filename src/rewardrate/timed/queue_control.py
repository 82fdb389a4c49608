"""Queue control: serve the next customer carefully or quickly, while others arrive."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least, finite
from rewardrate.timed.reference import ReferenceEnv, Transition, not_negative, pair, positive

Array = NDArray[np.float64]
QUICK, CAREFUL = 0, 1


class QueueControl(ReferenceEnv):
    """State: customers present, 0 to `room`. They arrive at random, `arrivals` a second; a full room turns them away.

    A quick service earns 1 and takes 1 s on average, a careful one earns 2 and takes 4 s (exponential times); each
    customer turned away costs `lost`. With nobody there, either action waits for the next arrival. By reward alone
    careful service always wins; by rate it wins only while the queue is short.
    """

    action_names: ClassVar = ("quick", "careful")

    def __init__(
        self,
        *,
        room: int = 6,
        arrivals: float = 0.5,
        reward: tuple[float, float] = (1.0, 2.0),
        seconds: tuple[float, float] = (1.0, 4.0),
        lost: float = 0.2,
        render_mode: str | None = None,
    ) -> None:
        self.room, self.arrivals = at_least("room", room, 1), positive("arrivals", arrivals)
        self.reward = pair("reward", reward, "quick, careful", finite)
        self.seconds = pair("seconds", seconds, "quick, careful", positive)
        self.lost = not_negative("lost", lost)
        super().__init__(self.room + 1, render_mode=render_mode)

    def tables(self) -> tuple[Array, Array, Array]:
        """Arrivals during an exponential service are geometric: P(k or more) = q^k, q = a s / (1 + a s)."""
        states = self.room + 1
        transition, reward, seconds = np.zeros((states, 2, states)), np.zeros((states, 2)), np.zeros((states, 2))
        transition[0, :, 1], seconds[0] = 1.0, 1 / self.arrivals
        for state in range(1, states):
            for action in (QUICK, CAREFUL):
                load = self.arrivals * self.seconds[action]
                q, free = load / (1 + load), self.room - (state - 1)
                come = np.arange(free)
                transition[state, action, state - 1 + come] = (1 - q) * q**come
                transition[state, action, self.room] += q**free
                away = q**free * load  # mean number of arrivals beyond `free`
                reward[state, action] = self.reward[action] - self.lost * away
                seconds[state, action] = self.seconds[action]
        return transition, reward, seconds

    def draw(self, state: int, action: int, rng: np.random.Generator) -> Transition:
        """Serve one customer, count the arrivals meanwhile."""
        if state == 0:
            return Transition(1, 0.0, rng.exponential(1 / self.arrivals))
        seconds = rng.exponential(self.seconds[action])
        present = state - 1 + int(rng.poisson(self.arrivals * seconds))
        away = max(0, present - self.room)
        return Transition(present - away, self.reward[action] - self.lost * away, seconds)
