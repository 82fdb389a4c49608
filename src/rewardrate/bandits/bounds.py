"""Upper bounds on the C-UCB index that separate over contexts.

Write R, D, T for the reward, seconds and count of a policy, summed over contexts, and s = D / sqrt(T). Its index
R / D - sqrt(kappa / T) beats a value f when

    gain = R - f D - sqrt(kappa) s > 0.

s is not linear, but s^2 = D^2 / T is convex, so for any d > 0 and any low <= s <= high

    s^2 >= 2 d D - d^2 T                      (tangent plane, tight where D / T = d)
    s   >= (s^2 + low high) / (low + high)    (chord of the square root, tight at both ends)

and with both, gain <= sum over contexts of (reward - alpha seconds + beta count) - shift, where

    alpha = f + 2 d sqrt(kappa) / (low + high),  beta = d^2 sqrt(kappa) / (low + high),
    shift = low high sqrt(kappa) / (low + high).

The largest right-hand side is one scan of the cells, each context on its own. Outside [low, high] the chord lies
above s, so the right-hand side only falls there, and the interval needs no constraint of its own. The index is
the paper's equation (bandit:rate).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardrate.bandits.compiled import exact
from rewardrate.bandits.fronts import COUNT, REWARD, SECONDS


@exact
def policy_index(total: Any, policy: Any, kappa: float) -> tuple[float, float, float]:
    """(index, seconds, count) of a policy: R / D - sqrt(kappa / T); -inf where nothing was seen.

    Sums run over the contexts in order: a brute force that adds in the same order gets the same bits.
    """
    reward = seconds = count = 0.0
    for x in range(policy.size):
        reward += total[x, REWARD, policy[x]]
        seconds += total[x, SECONDS, policy[x]]
        count += total[x, COUNT, policy[x]]
    if count == 0.0:
        return -np.inf, seconds, count
    return reward / seconds - math.sqrt(kappa / count), seconds, count


@exact
def swap(point: Any, arm: Any, x: int, i: int, j: int) -> None:
    """Swap two points of a context."""
    arm[x, i], arm[x, j] = arm[x, j], arm[x, i]
    for c in range(3):
        point[x, c, i], point[x, c, j] = point[x, c, j], point[x, c, i]


@exact
def bring_first(point: Any, arm: Any, x: int, j: int) -> None:
    """Swap a point of a context with the first."""
    if j > 0:
        arm[x, 0], arm[x, j] = arm[x, j], arm[x, 0]
        for c in range(3):
            point[x, c, 0], point[x, c, j] = point[x, c, j], point[x, c, 0]


@exact
def relax(point: Any, arm: Any, live: Any, alpha: float, beta: float) -> tuple[float, float, float, float]:
    """The bound without its shift: the sum over contexts of the best score; and (R, D, T) of the policy that has it.

    In every context the best arm is moved to the first place, where the policy can be read.
    """
    bound = reward = seconds = count = 0.0
    for x in range(live.size):
        best, at = -np.inf, live[x] - 1
        for j in range(live[x]):
            score = point[x, REWARD, j] - alpha * point[x, SECONDS, j] + beta * point[x, COUNT, j]
            if score > best:
                best, at = score, j
        bring_first(point, arm, x, at)
        bound += best
        reward += point[x, REWARD, 0]
        seconds += point[x, SECONDS, 0]
        count += point[x, COUNT, 0]
    return bound, reward, seconds, count


@exact
def prune_arms(point: Any, arm: Any, live: Any, alpha: float, beta: float, limit: float) -> tuple[int, int]:
    """Drop live arms whose score is more than `limit` below that of the first. Returns (dropped, kept beside it)."""
    # With such an arm in place of the first the whole bound falls below zero, whatever the other contexts do. Dropped
    # arms stay in the row, behind the live ones, so that a parent's larger `live` has them again.
    dropped = spare = 0
    for x in range(live.size):
        least = point[x, REWARD, 0] - alpha * point[x, SECONDS, 0] + beta * point[x, COUNT, 0] - limit
        kept = min(live[x], 1)
        for j in range(kept, live[x]):
            if point[x, REWARD, j] - alpha * point[x, SECONDS, j] + beta * point[x, COUNT, j] >= least:
                if j != kept:
                    swap(point, arm, x, j, kept)
                kept += 1
        dropped += live[x] - kept
        spare += kept - 1
        live[x] = kept
    return dropped, spare


@exact
def ranges(point: Any, live: Any) -> tuple[float, float, float, float, float]:
    """(largest R, least D, largest D, least T, largest T) that the live arms allow."""
    reward = low_seconds = high_seconds = low_count = high_count = 0.0
    for x in range(live.size):
        r = point[x, REWARD, 0]
        d1 = d2 = point[x, SECONDS, 0]
        n1 = n2 = point[x, COUNT, 0]
        for j in range(1, live[x]):
            r = max(r, point[x, REWARD, j])
            d1, d2 = min(d1, point[x, SECONDS, j]), max(d2, point[x, SECONDS, j])
            n1, n2 = min(n1, point[x, COUNT, j]), max(n2, point[x, COUNT, j])
        reward += r
        low_seconds += d1
        high_seconds += d2
        low_count += n1
        high_count += n2
    return reward, low_seconds, high_seconds, low_count, high_count


@exact
def split_arms(point: Any, arm: Any, live: Any, d: float, split: Any) -> None:
    """Branch: sort the arms of one context into two groups; `split` becomes the context and the first group's size.

    The context is the one whose arms differ most in what makes the bounds loose, and the cut is in the middle.
    """
    # The tangent plane is off by (D - d T)^2 / T, the chord depends on s, whose gradient is along D - d T / 2 where
    # D / T = d: so the spread of seconds - d count, or of seconds - d count / 2, is what a split should halve.
    widest, slope, cut = -1.0, d, 0.0
    for half in range(2):
        m = d if half == 0 else 0.5 * d
        for x in range(live.size):
            least = most = point[x, SECONDS, 0] - m * point[x, COUNT, 0]
            for j in range(1, live[x]):
                value = point[x, SECONDS, j] - m * point[x, COUNT, j]
                least, most = min(least, value), max(most, value)
            if live[x] > 1 and most - least > widest:
                widest, slope, cut = most - least, m, 0.5 * (least + most)
                split[0] = x
    at, split[1] = split[0], 0
    for j in range(live[at]):
        if point[at, SECONDS, j] - slope * point[at, COUNT, j] <= cut:
            swap(point, arm, at, j, split[1])
            split[1] += 1
    split[1] = min(max(split[1], 1), live[at] - 1)


@exact
def other_group(point: Any, arm: Any, x: int, first: int, size: int) -> int:
    """Move the second group of a context to the first places. Returns its size."""
    for i in range(size // 2):
        swap(point, arm, x, i, size - 1 - i)
    return size - first
