"""What C-UCB has seen, cell by cell, and the arms of every context that can belong to a best policy.

A cell (x, a) is a point (reward, seconds, count): totals of the steps on which arm a was played in context x. An arm is
dominated by another of its context that has no less reward, no more seconds and no less count: whatever the other
contexts do, a policy with the other arm has no smaller index (rewards are not negative). The rest is the front.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.compiled import Function

REWARD, SECONDS, COUNT = 0, 1, 2
NOBODY = -1
DEPTH = 128  # parts of the search that wait at a time


def exact(function: Function) -> Function:
    """Compile with every sum in the order in which it is written, so that equal policies have equal bits.

    numba compiles a function once more for every constant it is called with, so functions here pass variables.
    """
    import numba

    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=False)(function))


def exact_inside(function: Function) -> Function:
    """The same, written out at every call: for a short function in an inner loop."""
    import numba

    return cast(Function, numba.njit(error_model="numpy", fastmath=False, inline="always")(function))


class Frontier(NamedTuple):
    """Totals of every cell, the front of every context, and the room that a search works in: one per trial.

    Compiled code goes by the names of the fields, so an agent's state may have these and more.
    """

    total: NDArray[np.float64]
    "contexts x 3 x actions: reward, seconds, count."
    point: NDArray[np.float64]
    "contexts x 3 x actions: the same of the arms on the front, packed to the left, in any order."
    arm: NDArray[np.int64]
    "contexts x actions: whose point it is."
    size: NDArray[np.int64]
    "contexts: how many arms stand on the front."
    above: NDArray[np.int64]
    "contexts x actions: an arm that dominates this one; NOBODY on the front."
    best: NDArray[np.int64]
    "contexts: the best policy found by the last search, with which the next one starts."
    live: NDArray[np.int64]
    "parts x contexts: how many arms a waiting part of the search still has."
    part: NDArray[np.float64]
    "parts x 8: its numbers (frontier.LOW and following)."
    split: NDArray[np.int64]
    "parts x 2: a context whose second group of arms it takes over (or NOBODY), and the size of the first."
    parts: NDArray[np.int64]
    "1: how many parts the last search looked at."


def new_frontier(contexts: int, actions: int) -> Frontier:
    """Nothing seen yet: all arms of a context are equal, and the first of them stands for all."""
    above = np.zeros((contexts, actions), np.int64)
    above[:, 0] = NOBODY
    return Frontier(
        total=np.zeros((contexts, 3, actions)),
        point=np.zeros((contexts, 3, actions)),
        arm=np.zeros((contexts, actions), np.int64),
        size=np.ones(contexts, np.int64),
        above=above,
        best=np.zeros(contexts, np.int64),
        live=np.zeros((DEPTH, contexts), np.int64),
        part=np.zeros((DEPTH, 8)),
        split=np.zeros((DEPTH, 2), np.int64),
        parts=np.zeros(1, np.int64),
    )


@exact
def dominates(total: Any, x: int, a: int, b: int) -> bool:
    """Whether arm a is never worse than arm b in context x; of two equal arms the first dominates."""
    if (
        total[x, REWARD, a] < total[x, REWARD, b]
        or total[x, SECONDS, a] > total[x, SECONDS, b]
        or total[x, COUNT, a] < total[x, COUNT, b]
    ):
        return False
    return (
        a < b
        or total[x, REWARD, a] > total[x, REWARD, b]
        or total[x, SECONDS, a] < total[x, SECONDS, b]
        or total[x, COUNT, a] > total[x, COUNT, b]
    )


@exact
def take_off(frontier: Any, x: int, j: int) -> None:
    """Remove the j-th arm of the front; the last one takes its place."""
    last = frontier.size[x] - 1
    frontier.size[x] = last
    frontier.arm[x, j] = frontier.arm[x, last]
    for c in range(3):
        frontier.point[x, c, j] = frontier.point[x, c, last]


@exact
def place(frontier: Any, x: int, a: int) -> None:
    """Put an arm that is not on the front where it belongs: below an arm that dominates it, or onto the front."""
    for j in range(frontier.size[x]):
        if dominates(frontier.total, x, frontier.arm[x, j], a):
            frontier.above[x, a] = frontier.arm[x, j]
            return
    for j in range(frontier.size[x] - 1, -1, -1):
        b = frontier.arm[x, j]
        if dominates(frontier.total, x, a, b):
            frontier.above[x, b] = a
            take_off(frontier, x, j)
    last = frontier.size[x]
    frontier.size[x] = last + 1
    frontier.arm[x, last] = a
    frontier.above[x, a] = NOBODY
    for c in range(3):
        frontier.point[x, c, last] = frontier.total[x, c, a]


@exact
def put(frontier: Any, x: int, a: int, reward: float, seconds: float, count: float) -> None:
    """Set the totals of one cell, whatever they were. Arms below it that it no longer dominates are placed anew."""
    frontier.total[x, REWARD, a] = reward
    frontier.total[x, SECONDS, a] = seconds
    frontier.total[x, COUNT, a] = count
    for j in range(frontier.size[x] - 1, -1, -1):
        if frontier.arm[x, j] == a:
            take_off(frontier, x, j)
    frontier.above[x, a] = a  # and so it is placed anew with the others: no arm dominates itself
    for b in range(frontier.above.shape[1]):
        if frontier.above[x, b] == a and not dominates(frontier.total, x, a, b):
            place(frontier, x, b)


@exact
def record(frontier: Any, x: int, a: int, reward: float, seconds: float) -> None:
    """One attempt: arm a was played in context x. About as many operations as there are arms."""
    total = frontier.total
    put(frontier, x, a, total[x, REWARD, a] + reward, total[x, SECONDS, a] + seconds, total[x, COUNT, a] + 1.0)
