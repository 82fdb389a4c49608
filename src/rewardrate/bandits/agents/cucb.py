"""C-UCB: price time at a lower confidence bound of the best policy's rate, act optimistically (Gyorgy et al., 2007)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits import frontier, fronts, sampled
from rewardrate.bandits.agents.agent import Agent
from rewardrate.bandits.compiled import jit
from rewardrate.bandits.world import World
from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError

Array = NDArray[np.float64]

C1, C2, LOG_ALL, LOG_AMONG, POLICIES = 0, 1, 2, 3, 4
FLOOR = 1e-9  # of the price
MOST_POLICIES = 10_000_000  # sampled at every step, at most
BUDGET = 1_000_000  # parts of one search, at most


class Exact(NamedTuple):
    """State of the exact agent: the price, and the frontier with the search's arrays."""

    price: Array
    "The current price; how many searches ran out of budget."
    frontier: fronts.Frontier


class Sampled(NamedTuple):
    """State of the agent that samples policies."""

    price: Array
    "The current price; the best rate a cell ever had; the most steps that a policy can agree with."
    seen: sampled.Seen
    most: Array
    "contexts: the largest count of an arm."


@dataclass(frozen=True)
class CUCB(Agent):
    """rho = max_u [R(u) / D(u) - sqrt(2 c1 L / T(u))], then the action with the best r - rho delta + c2 sqrt(L / n).

    L = log t + log(|U| + 1) / 2 over the |U| = actions^contexts policies. Exact by default; `policies` samples that
    many at every step and takes log(policies) for log|U| in the first width, as the paper does for large worlds.
    Until every arm of the context was tried, the next untried one is played. Equations (bandit:rate), (bandit:ucb).
    """

    c1: float
    c2: float
    policies: int | None = None
    name: ClassVar[str] = "cucb"

    def __post_init__(self) -> None:
        for constant in ("c1", "c2"):
            value = finite(constant, getattr(self, constant), lambda number: number >= 0, "be finite and not negative")
            object.__setattr__(self, constant, value)
        if self.policies is not None:
            policies = at_least("policies", self.policies, 1)
            if policies > MOST_POLICIES:
                raise InputError("policies", policies, f"it must be at most {MOST_POLICIES:,}")
            object.__setattr__(self, "policies", policies)

    @classmethod
    def theory(cls, world: World, policies: int | None = None) -> Self:
        """The constants of the regret bound: c1 = kappa, c2 = alpha0 + alpha1. Paper, (eq:b-width) to (eq:alpha0)."""
        reward, seconds = world.true_reward, world.true_seconds
        low_r, high_r, low_d, high_d = reward.min(), reward.max(), seconds.min(), seconds.max()
        spread_r, spread_d = high_r - low_r, high_r * (high_d - low_d)
        kappa = 2 * max(spread_r**2 / low_d**2, spread_d**2 / low_d**4)
        alpha0 = math.sqrt(8 * max(spread_r**2, spread_d**2 / low_d**2))
        return cls(float(kappa), float(alpha0 + high_d * math.sqrt(2 * kappa)), policies)

    def start(self, world: World) -> Any:
        """No cell played."""
        if self.policies is not None:
            return Sampled(np.zeros(3), sampled.new_seen(world.contexts, world.actions), np.zeros(world.contexts))
        return Exact(np.zeros(2), fronts.new_frontier(world.contexts, world.actions))

    def parameters(self, world: World) -> Array:
        """The constants and the logarithms of the numbers of policies."""
        size = world.contexts * math.log(world.actions)
        log_all = (size + math.log1p(math.exp(-size))) / 2
        among = log_all if self.policies is None else math.log(self.policies + 1) / 2
        return np.array([self.c1, self.c2, log_all, among, float(self.policies or 0)])

    def unproven_steps(self, state: Any) -> int:
        """Searches that ended before the price was proved to be the largest."""
        return int(state.price[1]) if self.policies is None else 0

    @property
    def act(self) -> Callable[..., Any]:  # type: ignore[override]
        """By exact search, or by sampled policies."""
        return act_exact if self.policies is None else act_sampled

    @property
    def learn(self) -> Callable[..., Any]:  # type: ignore[override]
        """Add the step to its cell."""
        return learn_exact if self.policies is None else learn_sampled

    @property
    def price(self) -> Callable[..., Any]:  # type: ignore[override]
        """The current price."""
        return price_of


@jit
def price_of(state: Any) -> float:
    """The current price."""
    return float(state.price[0])


@jit
def act_exact(t: Any, x: Any, key: Any, state: Any, p: Any) -> Any:
    """Play an untried arm; else the best arm at the price of the best policy. Paper, (bandit:rate), (bandit:ucb)."""
    reward, seconds, count = state.frontier.total[x, 0], state.frontier.total[x, 1], state.frontier.total[x, 2]
    for a in range(count.size):
        if count[a] == 0.0:
            return a
    log_t = math.log(max(t, 2))
    price, proved = frontier.maximise(state.frontier, 2.0 * p[C1] * (log_t + p[LOG_AMONG]), FLOOR, BUDGET)
    if not proved:
        state.price[1] += 1.0
    state.price[0] = max(price, FLOOR)
    return best_action(reward, seconds, count, state.price[0], p[C2] * math.sqrt(log_t + p[LOG_ALL]))


@jit
def learn_exact(t: Any, x: Any, action: Any, reward: float, seconds: float, key: Any, state: Any, p: Any) -> None:
    """Add the step to its cell."""
    fronts.record(state.frontier, x, action, reward, seconds)


@jit
def act_sampled(t: Any, x: Any, key: Any, state: Any, p: Any) -> Any:
    """Play an untried arm; else the best arm at the price of the best sampled policy.

    No policy has a better rate than the best cell ever had, nor agrees with more steps than the most played arm of
    every context together: where even that comes below the floor, nothing needs to be drawn.
    """
    cell = state.seen.cell[x]
    if state.seen.size[x] < cell.shape[0]:
        return state.seen.size[x]
    log_t = math.log(max(t, 2))
    kappa = 2.0 * p[C1] * (log_t + p[LOG_AMONG])
    state.price[0] = FLOOR
    if state.price[1] - math.sqrt(kappa / state.price[2]) > FLOOR:
        state.price[0] = max(FLOOR, sampled.sampled_index(state.seen, key, int(p[POLICIES]), kappa))
    wide = p[C2] * math.sqrt(log_t + p[LOG_ALL])
    return best_action(cell[:, 0], cell[:, 1], cell[:, 2], state.price[0], wide)


@jit
def learn_sampled(t: Any, x: Any, action: Any, reward: float, seconds: float, key: Any, state: Any, p: Any) -> None:
    """Add the step to its cell. Arms are first tried in the order of their numbers, so arm a is row a of `cell`."""
    sampled.record_seen(state.seen, x, action, reward, seconds)
    cell = state.seen.cell[x, action]
    state.price[1] = max(state.price[1], cell[0] / cell[1])
    if cell[2] > state.most[x]:
        state.most[x] += 1.0
        state.price[2] += 1.0


@jit
def best_action(reward: Any, seconds: Any, count: Any, price: float, wide: float) -> Any:
    """Argmax of mean reward - price * mean seconds + wide / sqrt(n), the lowest number on ties."""
    best, value = 0, (reward[0] - price * seconds[0]) / count[0] + wide / math.sqrt(count[0])
    for a in range(1, count.size):
        index = (reward[a] - price * seconds[a]) / count[a] + wide / math.sqrt(count[a])
        if index > value:
            best, value = a, index
    return best
