"""Softmax policies on the gradient of the relative reward: what NPG and SPG share.

State: the estimator's memory (whose first number is the price), the unnormalised probabilities of the last context,
then logits, mean rewards, mean seconds and counts, contexts x actions each. Paper, equations (bandit:softmax),
(bandit:update).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.agents.agent import Agent
from rewardrate.bandits.compiled import jit
from rewardrate.bandits.counter import bits, uniform
from rewardrate.bandits.pricing import SETTINGS, feed, memory_of, settings_of
from rewardrate.bandits.world import World
from rewardrate.checks import at_least, finite
from rewardrate.rates import NIW, Estimator

Array = NDArray[np.float64]

SLOTS, EVERY = 128, 8  # accumulator slots; a refit at every eighth step that feeds one
# Places in the parameters, after the estimator's settings.
RATE, NATURAL, ACTIONS, CELLS, MEMORY, NUMBERS = (SETTINGS + i for i in range(6))
FLOOR = -40.0  # exp of less is lost beside 1 in 64-bit arithmetic


@dataclass(frozen=True)
class PolicyGradient(Agent):
    """A softmax head per context, moved along `learning_rate` times the advantage of the relative reward.

    The price comes from `estimator` (default: NIW, the paper's), fed with greedy samples on 128 slots that restart
    when older than `age` steps.
    """

    learning_rate: float
    age: int
    estimator: Estimator | None = None

    NATURAL: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "learning_rate", _positive(self.learning_rate))
        object.__setattr__(self, "age", at_least("age", self.age, 1))
        settings_of(self._estimator, SLOTS, self.age, EVERY)

    @property
    def _estimator(self) -> Estimator:
        return NIW() if self.estimator is None else self.estimator

    def start(self, world: World) -> Array:
        """Logits of zero: every action equally likely."""
        memory = memory_of(self._estimator, SLOTS)
        return np.concatenate([memory, np.zeros(world.actions + 2 + 4 * world.contexts * world.actions)])

    def parameters(self, world: World) -> Array:
        """Settings of the estimator, learning rate, which gradient, shape."""
        cells = world.contexts * world.actions
        own = (self.learning_rate, float(self.NATURAL), world.actions, cells, memory_of(self._estimator, SLOTS).size)
        return np.concatenate([settings_of(self._estimator, SLOTS, self.age, EVERY), own])


def _positive(value: Any) -> float:
    return finite("learning_rate", value, lambda number: number > 0, "be finite and positive")


@jit
def exp_below(x: float) -> float:
    """Exp of a number that is not positive, to 1e-13; 0 below FLOOR. A polynomial and eight squarings: it fits vectors.

    exp(x) = (exp(x / 256))^256, and x / 256 lies within 0.16 of zero.
    """
    # Unlike math.exp it has no branches or table lookups, so numba vectorises loops over it.
    y = max(x, FLOOR) / 256.0
    e = 1.0 + y * (1.0 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * (1 / 120 + y * (1 / 720 + y * (1 / 5040)))))))
    e = e + y * y * y * y * y * y * y * y * (1 / 40320 + y * (1 / 362880))
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    return e if x > FLOOR else 0.0


@jit
def act(t: Any, x: Any, key: Any, state: Any, p: Any) -> Any:
    """Draw an action from softmax(theta[x]) by inversion."""
    actions, memory = int(p[ACTIONS]), int(p[MEMORY])
    chance = state[memory + 2 : memory + 2 + actions]
    base = memory + 2 + actions + x * actions
    theta = state[base : base + actions]
    top = theta[0]
    for a in range(1, actions):
        top = max(top, theta[a])
    total = 0.0
    for a in range(actions):
        e = exp_below(theta[a] - top)
        chance[a] = e
        total += e
    state[memory], state[memory + 1] = top, total
    return inverted(chance, uniform(key, 0) * total)


@jit
def inverted(chance: Any, left: float) -> Any:
    """The action at which the running sum of `chance` passes `left`: sixteen at a time, then one by one."""
    first = 0
    while first + 16 < chance.size:
        part = 0.0
        for a in range(16):
            part += chance[first + a]
        if left < part:
            break
        left -= part
        first += 16
    for a in range(first, chance.size - 1):
        left -= chance[a]
        if left < 0.0:
            return a
    return chance.size - 1


@jit
def learn(t: Any, x: Any, action: Any, reward: float, seconds: float, key: Any, state: Any, p: Any) -> None:
    """Update the estimator if the action was greedy; then the cell's means; then the logits of the context.

    The natural gradient adds learning_rate * (Q - pi'Q) to the logits; the constant pi'Q moves no softmax and is left
    out. The standard gradient adds learning_rate * pi * (Q - pi'Q). Q is 0 where nothing is known.
    """
    actions, cells, memory = int(p[ACTIONS]), int(p[CELLS]), int(p[MEMORY])
    chance = state[memory + 2 : memory + 2 + actions]
    base = memory + 2 + actions + x * actions
    theta = state[base : base + actions]
    mean_reward = state[base + cells : base + cells + actions]
    mean_seconds = state[base + 2 * cells : base + 2 * cells + actions]
    count = state[base + 3 * cells : base + 3 * cells + actions]
    if is_greedy(theta, action, state[memory]):
        feed(state, p, t, reward, seconds, bits(key, 1))  # number 0 chose the action: a refit has a stream of its own
    count[action] += 1.0
    mean_reward[action] += (reward - mean_reward[action]) / count[action]
    mean_seconds[action] += (seconds - mean_seconds[action]) / count[action]
    rate, price = p[RATE], state[0]
    if p[NATURAL] > 0.0:
        for a in range(actions):
            theta[a] += rate * (mean_reward[a] - price * mean_seconds[a])
        return
    mean = 0.0
    for a in range(actions):
        mean += chance[a] * (mean_reward[a] - price * mean_seconds[a])
    mean /= state[memory + 1]
    rate /= state[memory + 1]
    for a in range(actions):
        theta[a] += rate * chance[a] * (mean_reward[a] - price * mean_seconds[a] - mean)


@jit
def is_greedy(theta: Any, action: Any, top: float) -> bool:
    """Whether `action` is the argmax, the lowest of them on ties."""
    if theta[action] < top:
        return False
    for a in range(action):  # noqa: SIM110  (numba has no any())
        if theta[a] == top:
            return False
    return True


@jit
def price(state: Any) -> float:
    """The rate in force."""
    return float(state[0])
