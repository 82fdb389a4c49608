"""Random bandits to test theorems on: ordinary ones and edge cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardrate.theory.smdp import SMDP
from rewardrate.theory.tables import Array


@dataclass(frozen=True)
class Instance:
    """Mean tables (contexts x actions), context probabilities, and the family they were drawn from."""

    family: str
    reward: Array
    seconds: Array
    p: Array

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, exact: a counterexample can be kept and replayed."""
        return {
            "family": self.family,
            "reward": self.reward.tolist(),
            "seconds": self.seconds.tolist(),
            "p": self.p.tolist(),
        }


Tables = tuple[Array, Array, Array]
DrawTables = Callable[[np.random.Generator, int, int], Tables]


def _ordinary(rng: np.random.Generator, x: int, a: int) -> Tables:
    return rng.uniform(0, 1, (x, a)), rng.uniform(0.5, 5, (x, a)), rng.dirichlet(np.ones(x))


def _wild_times(rng: np.random.Generator, x: int, a: int) -> Tables:
    """A second or a quarter of an hour: times over three orders of magnitude."""
    return rng.uniform(0, 1, (x, a)), 10 ** rng.uniform(0, 3, (x, a)), rng.dirichlet(np.ones(x))


def _nearly_equal_times(rng: np.random.Generator, x: int, a: int) -> Tables:
    return rng.uniform(0, 1, (x, a)), 1 + 0.1 * rng.uniform(0, 1, (x, a)), rng.dirichlet(np.ones(x))


def _equal_times(rng: np.random.Generator, x: int, a: int) -> Tables:
    return rng.uniform(0, 1, (x, a)), np.full((x, a), rng.uniform(0.5, 5)), rng.dirichlet(np.ones(x))


def _times_by_context(rng: np.random.Generator, x: int, a: int) -> Tables:
    """Contexts differ in time, actions do not: delta_spr = 0 although not all times are equal."""
    return rng.uniform(0, 1, (x, a)), np.repeat(rng.uniform(0.5, 5, (x, 1)), a, axis=1), rng.dirichlet(np.ones(x))


def _ties(rng: np.random.Generator, x: int, a: int) -> Tables:
    """Small whole numbers: ties at many rates, often at the optimal one."""
    return rng.integers(0, 4, (x, a)).astype(float), rng.integers(1, 4, (x, a)).astype(float), np.full(x, 1 / x)


def _one_action(rng: np.random.Generator, x: int, a: int) -> Tables:
    return _ordinary(rng, x, 1)


def _one_context(rng: np.random.Generator, x: int, a: int) -> Tables:
    return _ordinary(rng, 1, a)


def _skip(rng: np.random.Generator, x: int, a: int) -> Tables:
    """Doing nothing is possible, free of reward and quick: the last action."""
    reward, seconds, p = _ordinary(rng, x, a)
    reward[:, -1], seconds[:, -1] = 0.0, 0.05
    return reward, seconds, p


def _no_reward(rng: np.random.Generator, x: int, a: int) -> Tables:
    _, seconds, p = _ordinary(rng, x, a)
    return np.zeros((x, a)), seconds, p


def _rare_contexts(rng: np.random.Generator, x: int, a: int) -> Tables:
    """Some contexts never come, or almost never."""
    reward, seconds, _ = _ordinary(rng, x, a)
    weight = rng.choice([0.0, 1e-9, 1.0], x)
    weight[0] = 1.0
    return reward, seconds, weight / weight.sum()


def _other_units(rng: np.random.Generator, x: int, a: int) -> Tables:
    reward, seconds, p = _ordinary(rng, x, a)
    return reward * 10 ** rng.uniform(-6, 6), seconds * 10 ** rng.uniform(-6, 6), p


FAMILIES: dict[str, DrawTables] = {
    "ordinary": _ordinary,
    "wild-times": _wild_times,
    "nearly-equal-times": _nearly_equal_times,
    "equal-times": _equal_times,
    "times-by-context": _times_by_context,
    "ties": _ties,
    "one-action": _one_action,
    "one-context": _one_context,
    "skip": _skip,
    "no-reward": _no_reward,
    "rare-contexts": _rare_contexts,
    "other-units": _other_units,
}


def draw_instance(rng: np.random.Generator, family: str, contexts: int, actions: int) -> Instance:
    """A bandit of the family with at most so many contexts and actions."""
    x, a = int(rng.integers(1, contexts + 1)), int(rng.integers(1 if actions == 1 else 2, actions + 1))
    return Instance(family, *FAMILIES[family](rng, x, a))


def draw_smdp(rng: np.random.Generator, states: int = 4, actions: int = 3) -> SMDP:
    """A small process in which every state can follow every other, some only just."""
    s, a = int(rng.integers(1, states + 1)), int(rng.integers(1, actions + 1))
    transition = rng.dirichlet(np.full(s, rng.choice([0.3, 1.0])), (s, a)) * 0.98 + 0.02 / s
    return SMDP(transition, rng.uniform(-0.5, 1, (s, a)), 10 ** rng.uniform(-1, 1, (s, a)))
