"""Totals of every cell that C-UCB has played, and the Pareto front of every context's arms.

A cell (x, a) is a point (reward, seconds, count): totals of the steps on which arm a was played in context x. An arm is
dominated by another of its context that has no less reward, no more seconds and no less count: whatever the other
contexts do, a policy with the other arm has no smaller index (rewards are not negative). The rest is the front: only
its arms can belong to a best policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.compiled import exact

REWARD, SECONDS, COUNT = 0, 1, 2
NO_ARM = -1
DEPTH = 128  # parts on the stack of the search at most


class Frontier(NamedTuple):
    """Totals of every cell, the front of every context, and the arrays that a search works in: one per trial.

    Compiled code accesses fields by name, so an agent's state may have these and more.
    """

    total: NDArray[np.float64]
    "contexts x 3 x actions: reward, seconds, count."
    point: NDArray[np.float64]
    "contexts x 3 x actions: the same of the arms on the front, packed to the left, in any order."
    arm: NDArray[np.int64]
    "contexts x actions: the arm of each point."
    size: NDArray[np.int64]
    "contexts: how many arms are on the front."
    dominator: NDArray[np.int64]
    "contexts x actions: an arm that dominates this one; NO_ARM on the front."
    best: NDArray[np.int64]
    "contexts: the best policy found by the last search, with which the next one starts."
    live: NDArray[np.int64]
    "parts x contexts: how many arms a part on the stack still has."
    part: NDArray[np.float64]
    "parts x 8: its numbers (frontier.LOW and following)."
    split: NDArray[np.int64]
    "parts x 2: a context whose second group of arms the part takes next (or NO_ARM), and the size of the first."
    parts: NDArray[np.int64]
    "1: how many parts the last search looked at."


def new_frontier(contexts: int, actions: int) -> Frontier:
    """Nothing played yet: all arms of a context are equal, and the first of them dominates the others."""
    dominator = np.zeros((contexts, actions), np.int64)
    dominator[:, 0] = NO_ARM
    return Frontier(
        total=np.zeros((contexts, 3, actions)),
        point=np.zeros((contexts, 3, actions)),
        arm=np.zeros((contexts, actions), np.int64),
        size=np.ones(contexts, np.int64),
        dominator=dominator,
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
def remove_from_front(frontier: Any, x: int, j: int) -> None:
    """Remove the j-th arm of the front; the last one takes its place."""
    last = frontier.size[x] - 1
    frontier.size[x] = last
    frontier.arm[x, j] = frontier.arm[x, last]
    for c in range(3):
        frontier.point[x, c, j] = frontier.point[x, c, last]


@exact
def insert(frontier: Any, x: int, a: int) -> None:
    """Insert an arm: below an arm of the front that dominates it, or into the front, where it may remove others."""
    for j in range(frontier.size[x]):
        if dominates(frontier.total, x, frontier.arm[x, j], a):
            frontier.dominator[x, a] = frontier.arm[x, j]
            return
    for j in range(frontier.size[x] - 1, -1, -1):
        b = frontier.arm[x, j]
        if dominates(frontier.total, x, a, b):
            frontier.dominator[x, b] = a
            remove_from_front(frontier, x, j)
    last = frontier.size[x]
    frontier.size[x] = last + 1
    frontier.arm[x, last] = a
    frontier.dominator[x, a] = NO_ARM
    for c in range(3):
        frontier.point[x, c, last] = frontier.total[x, c, a]


@exact
def set_totals(frontier: Any, x: int, a: int, reward: float, seconds: float, count: float) -> None:
    """Set the totals of one cell and update its context's front, in about as many operations as there are arms."""
    # Every arm off the front remembers one arm that dominates it, its witness. An arm whose witness still dominates it
    # needs no check, so a step re-inserts only the arm that was played and those it was the witness of.
    frontier.total[x, REWARD, a] = reward
    frontier.total[x, SECONDS, a] = seconds
    frontier.total[x, COUNT, a] = count
    for j in range(frontier.size[x] - 1, -1, -1):
        if frontier.arm[x, j] == a:
            remove_from_front(frontier, x, j)
    frontier.dominator[x, a] = a  # so that the loop re-inserts it too: no arm dominates itself
    for b in range(frontier.dominator.shape[1]):
        if frontier.dominator[x, b] == a and not dominates(frontier.total, x, a, b):
            insert(frontier, x, b)


@exact
def record(frontier: Any, x: int, a: int, reward: float, seconds: float) -> None:
    """Add a step: arm a was played in context x."""
    total = frontier.total
    set_totals(
        frontier,
        x,
        a,
        reward=total[x, REWARD, a] + reward,
        seconds=total[x, SECONDS, a] + seconds,
        count=total[x, COUNT, a] + 1.0,
    )
