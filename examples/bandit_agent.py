"""An agent of your own in thirty lines: always the arm with the best rate of its own, with some exploration.

It ignores that contexts share one clock, so it takes the fast arm where the slow one is better. numba compiles `act`
and `learn`; state is one vector: a price for the record, then reward and seconds of every cell.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rewardrate.bandits import NPG, Agent, World, simulate
from rewardrate.bandits.counter import uniform


@dataclass(frozen=True)
class RateGreedy(Agent):
    """argmax of reward / seconds in each context."""

    explore: float = 0.05
    name: ClassVar[str] = "rate-greedy"

    def start(self, world):
        """A price, then reward and seconds of every cell."""
        return np.concatenate([[0.0], np.full(2 * world.contexts * world.actions, 1e-3)])

    def parameters(self, world):
        """What `act` and `learn` get as p."""
        return np.array([self.explore, world.actions, world.contexts * world.actions])

    @staticmethod
    def act(t, x, key, state, p):
        """An arm at random now and then, else the one with the best rate."""
        actions, cells = int(p[1]), int(p[2])
        if uniform(key, 0) < p[0] / np.sqrt(1.0 + t / 1000.0):
            return int(uniform(key, 1) * actions)
        reward = state[1 + x * actions : 1 + (x + 1) * actions]
        seconds = state[1 + cells + x * actions : 1 + cells + (x + 1) * actions]
        return np.argmax(reward / seconds)

    @staticmethod
    def learn(t, x, action, reward, seconds, key, state, p):
        """Add to the cell."""
        place = 1 + x * int(p[1]) + action
        state[place] += reward
        state[place + int(p[2])] += seconds
        state[0] = state[place] / state[place + int(p[2])]


if __name__ == "__main__":
    world = World("E1", arms=10, contexts=4)
    for agent in (RateGreedy(), NPG(learning_rate=0.3, age=1000)):
        regret = simulate(world, agent, seeds=range(20), steps=10_000).final_regret
        print(f"{agent.name:12} regret {regret.mean():6.0f} +- {regret.std() / np.sqrt(20):.0f} after 10,000 steps")
