"""The paper's approximation of C-UCB's best policy: the best of some policies drawn at random.

Each policy takes in every context one of the arms that were already played there, all equally likely and independently;
a context in which nothing was played adds nothing. The authors draw 2048 afresh at every step, and put log 2048 in the
place of log |U| in the width of the rate. Paper, "C-UCB with approximation".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.compiled import exact, exact_inline
from rewardrate.bandits.counter import bits
from rewardrate.bandits.fronts import COUNT, NO_ARM, REWARD, SECONDS

POLICIES = 2048
HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)


class Seen(NamedTuple):
    """Totals of the arms played so far, side by side, so that a draw reads one place in memory."""

    cell: NDArray[np.float64]
    "contexts x actions x 4: reward, seconds, count and padding, in the order in which arms were first played."
    row: NDArray[np.int64]
    "contexts x actions: row of an arm in `cell`; NO_ARM before it was played."
    size: NDArray[np.int64]
    "contexts: how many arms were played."


def new_seen(contexts: int, actions: int) -> Seen:
    """Nothing played yet."""
    return Seen(
        cell=np.zeros((contexts, actions, 4)),
        row=np.full((contexts, actions), NO_ARM, np.int64),
        size=np.zeros(contexts, np.int64),
    )


@exact
def record_seen(seen: Any, x: int, a: int, reward: float, seconds: float) -> None:
    """Add a step: arm a was played in context x."""
    if seen.row[x, a] == NO_ARM:
        seen.row[x, a] = seen.size[x]
        seen.size[x] += 1
    j = seen.row[x, a]
    seen.cell[x, j, REWARD] += reward
    seen.cell[x, j, SECONDS] += seconds
    seen.cell[x, j, COUNT] += 1.0


@exact_inline
def sampled_policy(cell: Any, size: Any, key: Any, i: int) -> tuple[float, float, float]:
    """(R, D, T) of policy i of a stream: each half of a 64-bit number decides the arm of one context.

    An arm's chance differs from 1 / size by less than 2^-32.
    """
    reward = seconds = count = 0.0
    pairs = size.size // 2
    first = i * (pairs + 1)
    for pair in range(pairs):
        number = bits(key, first + pair)
        x = 2 * pair
        j = ((number >> HALF) * np.uint64(size[x])) >> HALF
        k = ((number & LOWER) * np.uint64(size[x + 1])) >> HALF
        reward += cell[x, j, REWARD] + cell[x + 1, k, REWARD]
        seconds += cell[x, j, SECONDS] + cell[x + 1, k, SECONDS]
        count += cell[x, j, COUNT] + cell[x + 1, k, COUNT]
    if size.size % 2 == 1:
        x = size.size - 1
        j = ((bits(key, first + pairs) >> HALF) * np.uint64(size[x])) >> HALF
        reward += cell[x, j, REWARD]
        seconds += cell[x, j, SECONDS]
        count += cell[x, j, COUNT]
    return reward, seconds, count


@exact
def sampled_index(seen: Any, key: Any, policies: int, kappa: float) -> float:
    """The largest index R / D - sqrt(kappa / T) of the first `policies` of a stream; -inf before the first step."""
    best, cell, size = -np.inf, seen.cell, seen.size
    for i in range(policies):
        reward, seconds, count = sampled_policy(cell, size, key, i)
        if count > 0.0:
            index = reward / seconds - math.sqrt(kappa / count)
            best = max(best, index)
    return best
