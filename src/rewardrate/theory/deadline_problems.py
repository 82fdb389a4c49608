"""Random learning problems with a deadline: kinds of attempts that differ in score and seconds, and a skill that grows.

    commit    the policy mixes all kinds until it chooses one, once, for all of its budget
    inertia   the kinds stand in a row, from quick to slow, and an attempt moves the policy by one place at most
    free      any kind at any attempt; the score of the latest counts
    search    any kind at any attempt; the best score so far counts

In the first three an attempt of kind c at skill k is valid with probability q_k and then scores g_c; the policy's score
is q_k g_c of the kind it is at. An attempt raises the skill by one with some probability, whatever its kind: what a
second costs is learning. In `search` an attempt finds a better score with a probability that falls as the best rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardrate.errors import InputError, did_you_mean
from rewardrate.theory.finite_horizon import FiniteHorizon, Whole
from rewardrate.theory.tables import Array

FAMILIES = ("commit", "inertia", "free", "search")
MOST_SECONDS = 400  # of a budget: the time to solve a problem is in proportion


@dataclass(frozen=True)
class DeadlineProblem:
    """A problem, its budget, and what an agent knows in each state. S states, A actions."""

    family: str
    horizon: FiniteHorizon
    budget: int
    start: int
    reward: Array
    "S x A: expected reward of the next attempt."
    level: Array
    "S: mean reward of an attempt of the policy as it is."
    mean_seconds: Array
    "S: mean seconds of such an attempt."
    gain: Array
    "S: how much an attempt raises the level, on average."
    valid: Array
    "S: probability that an attempt is valid."
    best: float
    "The best reward known."


def draw_problem(rng: np.random.Generator, family: str) -> DeadlineProblem:
    """A random problem of a family: 2 to 5 kinds of 1 to 15 seconds, and time for 2 to 80 attempts of mean length."""
    if family not in FAMILIES:
        raise InputError("family", family, "there is no such family", did_you_mean(str(family), FAMILIES))
    seconds = np.sort(rng.choice(np.arange(1, 16), size=int(rng.integers(2, 6)), replace=False))
    attempts = np.exp(rng.uniform(np.log(2), np.log(80)))
    budget = min(MOST_SECONDS, max(1, round(float(seconds.mean() * attempts))))
    return _search(rng, seconds, budget) if family == "search" else _learning(rng, seconds, budget, family)


def _skill(rng: np.random.Generator) -> tuple[Array, Array]:
    """Valid share at each skill, and the probability that an attempt raises the skill.

    The share approaches its limit as an exponential, or in random steps; every attempt teaches, or only a valid one.
    """
    top = int(rng.integers(4, 16))
    first, last = rng.uniform(0.03, 0.7), rng.uniform(0.75, 1.0)
    if rng.random() < 0.5:
        shape = 1 - np.exp(-np.arange(top + 1) / (top * rng.uniform(0.2, 0.6)))
    else:
        shape = np.append(0.0, rng.exponential(size=top).cumsum())
    valid = first + (last - first) * shape / shape[-1]
    teaches = rng.uniform(0.2, 1.0) * (valid if rng.random() < 0.5 else np.ones(top + 1))
    teaches[-1] = 0.0
    return valid, teaches


def _learning(rng: np.random.Generator, seconds: Whole, budget: int, family: str) -> DeadlineProblem:
    """State skill * places + place. A place is a kind of attempts; the last one (not in inertia) mixes them alike."""
    valid_K, teaches_K = _skill(rng)
    score = np.sort(rng.uniform(0.2, 1.0, size=seconds.size))
    kind, last = np.arange(seconds.size), seconds.size - 1
    if family == "inertia":
        next_place = np.stack([kind, np.maximum(kind - 1, 0), np.minimum(kind + 1, last)], axis=1)
        start, places = int(rng.integers(kind.size)), (score, seconds.astype(float))
    else:
        chosen = np.repeat(kind[:, None], kind.size, axis=1)
        next_place = np.vstack([chosen.T if family == "free" else chosen, kind])
        start, places = kind.size, (np.append(score, score.mean()), np.append(seconds, seconds.mean()))
    skill, place = np.divmod(np.arange(valid_K.size * len(next_place)), len(next_place))
    to_SA, up = next_place[place], np.minimum(skill + 1, valid_K.size - 1)
    if family == "free":  # the next attempt is of any kind, whatever the last one was
        mean_score, mean_seconds = np.full(place.size, score.mean()), np.full(place.size, seconds.mean())
    else:
        mean_score, mean_seconds = places[0][place], places[1][place]
    return DeadlineProblem(
        family=family,
        horizon=FiniteHorizon(
            seconds=seconds[to_SA],
            chance=np.repeat(teaches_K[skill][:, None], to_SA.shape[1], axis=1),
            success=up[:, None] * len(next_place) + to_SA,
            failure=skill[:, None] * len(next_place) + to_SA,
            final=valid_K[skill] * places[0][place],
        ),
        budget=budget,
        start=start,
        reward=valid_K[skill][:, None] * score[to_SA],
        level=valid_K[skill] * mean_score,
        mean_seconds=mean_seconds,
        gain=teaches_K[skill] * (valid_K[up] - valid_K[skill]) * mean_score,
        valid=valid_K[skill],
        best=float(score.max()),
    )


def _search(rng: np.random.Generator, seconds: Whole, budget: int) -> DeadlineProblem:
    """State: the best score so far, on a grid from 0 to 1. An attempt that is no better scores what it started from."""
    top = int(rng.integers(8, 21))
    best_S = np.arange(top + 1)
    steps = np.sort(rng.integers(1, 5, size=seconds.size))
    ease = (1 - best_S[:, None] / top) ** rng.uniform(0.2, 2.0)
    chance_SA = rng.uniform(0.1, 0.9, size=seconds.size) * ease
    after_SA = np.minimum(best_S[:, None] + steps, top)
    gain_SA = chance_SA * (after_SA - best_S[:, None]) / top
    return DeadlineProblem(
        family="search",
        horizon=FiniteHorizon(
            seconds=np.tile(seconds, (top + 1, 1)),
            chance=chance_SA,
            success=after_SA,
            failure=np.repeat(best_S[:, None], seconds.size, axis=1),
            final=best_S / top,
        ),
        budget=budget,
        start=0,
        reward=best_S[:, None] / top + gain_SA,
        level=best_S / top + gain_SA.mean(axis=1),
        mean_seconds=np.full(top + 1, seconds.mean()),
        gain=gain_SA.mean(axis=1),
        valid=np.ones(top + 1),
        best=1.0,
    )
