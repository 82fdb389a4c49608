"""One trial: the loop that every agent runs in, compiled around the agent's own functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.agents.agent import Agent
from rewardrate.bandits.compiled import is_compiled, jit_fresh
from rewardrate.bandits.counter import AGENT, ORDER, WORLD, bits, permute, trial_key, uniform
from rewardrate.bandits.draws import SKIP_REWARD, SKIP_SECONDS, draw
from rewardrate.bandits.world import FAMILIES, SKIP, World

Array = NDArray[np.float64]

REGRET, PSEUDO, PRICE = 0, 1, 2  # rows of a trial's record


class Tables(NamedTuple):
    """A world as arrays for the loop: design means (SKIP last), gaps at the optimal rate, and three numbers."""

    reward: Array
    seconds: Array
    gap: Array
    "max_b q*(x, b) - q*(x, a): what an action costs in relative value. Its sum is the pseudo-regret."
    numbers: Array
    "Correlation, lognormal (1 or 0), optimal rate."


def tables_of(world: World) -> Tables:
    """The tables of a world."""
    family = FAMILIES[world.family]
    reward, seconds = (
        np.ascontiguousarray(np.column_stack([table, np.full(world.contexts, skip)]))
        for table, skip in zip((world.mean_reward, world.mean_seconds), SKIP, strict=True)
    )
    value = world.true_reward - world.optimal_rate * world.true_seconds
    gap = value.max(axis=1, keepdims=True) - value
    numbers = np.array([family.correlation, float(family.lognormal), world.optimal_rate])
    return Tables(reward, seconds, gap, numbers)


def loop_of(agent: Agent) -> Callable[..., None]:
    """The compiled loop around this agent's functions; made once per process and class."""
    return compiled_loop(agent.act, agent.learn, agent.price)


@lru_cache(maxsize=64)
def compiled_loop(act: Callable[..., Any], learn: Callable[..., Any], price: Callable[..., Any]) -> Callable[..., None]:
    """`make_loop` with these three, compiled."""
    functions = [part if is_compiled(part) else jit_fresh(part) for part in (act, learn, price)]
    return jit_fresh(make_loop(*functions))


def make_loop(act: Callable[..., Any], learn: Callable[..., Any], price: Callable[..., Any]) -> Callable[..., None]:
    """The loop as plain Python: what numba compiles for the CPU and for the GPU."""

    def one_trial(
        seed: Any, steps: Any, marks: Any, mean_reward: Any, mean_seconds: Any, gap: Any, numbers: Any,
        p: Any, state: Any, arm_of: Any, context_of: Any, out: Any,
    ) -> None:  # fmt: skip
        # Three streams: the agent's own numbers never shift the world's, so agents with the same seed see the same
        # contexts and noise, and their differences are paired. Step t uses numbers 3 t to 3 t + 2 of the world's
        # stream.
        order, world, own = trial_key(seed, ORDER), trial_key(seed, WORLD), trial_key(seed, AGENT)
        permute(order, 0, context_of)
        permute(order, context_of.size, arm_of)
        contexts, arms = context_of.size, arm_of.size
        correlation, lognormal, optimal = numbers[0], numbers[1], numbers[2]
        regret, pseudo, mark = 0.0, 0.0, 0
        for t in range(1, steps + 1):
            x = min(int(uniform(world, 3 * t) * contexts), contexts - 1)
            key = bits(own, t)
            action = act(t, x, key, state, p)
            row = context_of[x]
            if action < arms:
                arm = arm_of[action]
                reward, seconds = draw(
                    mean_reward[row, arm], mean_seconds[row, arm], correlation, lognormal, world, 3 * t + 1
                )
            else:
                arm, reward, seconds = arms, SKIP_REWARD, SKIP_SECONDS
            learn(t, x, action, reward, seconds, key, state, p)
            regret += optimal * seconds - reward  # paper, equation (bandit:regret)
            pseudo += gap[row, arm]
            if t == marks[mark]:
                out[REGRET, mark], out[PSEUDO, mark], out[PRICE, mark] = regret, pseudo, price(state)
                mark = min(mark + 1, marks.size - 1)

    return one_trial
