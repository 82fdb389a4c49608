"""Rates of a contextual bandit whose actions take time: relative values, greedy policies and the optimal rate.

Tables are contexts x actions (suffix _xa); p_x weighs the contexts. Paper, appendix "Theoretical Analysis".
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from rewardrate.errors import InputError
from rewardrate.theory.tables import Array, check_p, check_policy, check_rate, check_tables

Ties = Literal["first", "last"] | np.random.Generator
TIE = 1e-12  # two relative values this close, in units of the numbers they come from, are tied when ties are drawn


def relative_value(reward: ArrayLike, seconds: ArrayLike, rate: float) -> Array:
    """q_rate(x, a) = reward(x, a) - rate * seconds(x, a)."""
    reward_xa, seconds_xa = check_tables(reward, seconds)
    return reward_xa - check_rate(rate) * seconds_xa


def F(reward: ArrayLike, seconds: ArrayLike, p: ArrayLike | None, rate: float) -> float:
    """F(rate) = E_p[max_a q_rate(x, a)]: convex, decreasing, zero only at the optimal rate. Paper, (eq:relval)."""
    q_xa = relative_value(reward, seconds, rate)
    return float(check_p(p, len(q_xa)) @ q_xa.max(axis=1))


def margin(reward: ArrayLike, seconds: ArrayLike, rate: float) -> float:
    """Delta(rate) = min_x [best - second best relative value]; infinite where there is a single action."""
    q_xa = relative_value(reward, seconds, rate)
    if q_xa.shape[1] == 1:
        return float("inf")
    top = np.partition(q_xa, -2, axis=1)[:, -2:]
    return float((top[:, 1] - top[:, 0]).min())


def greedy_policy(reward: ArrayLike, seconds: ArrayLike, rate: float, *, ties: Ties = "first") -> NDArray[np.int64]:
    """An action per context with the best relative value. Ties: lowest number, highest, or drawn by a Generator."""
    q_xa = relative_value(reward, seconds, rate)
    if isinstance(ties, np.random.Generator):
        # Ties up to rounding, measured against the terms of the difference r - rate * delta: its own size may be zero.
        reward_xa, seconds_xa = check_tables(reward, seconds)
        size_xa = np.abs(reward_xa) + abs(rate) * seconds_xa
        best = q_xa.argmax(axis=1)[:, None]
        lead_xa = np.take_along_axis(q_xa, best, axis=1) - q_xa
        tied = lead_xa <= TIE * np.maximum(size_xa, np.take_along_axis(size_xa, best, axis=1))
        return np.asarray(np.where(tied, ties.random(q_xa.shape), -1.0).argmax(axis=1))
    if ties == "first":
        return np.asarray(q_xa.argmax(axis=1))
    if ties == "last":
        return np.asarray(q_xa.shape[1] - 1 - q_xa[:, ::-1].argmax(axis=1))
    raise InputError("ties", ties, "it must be 'first', 'last' or a numpy Generator")


def policy_rate(reward: ArrayLike, seconds: ArrayLike, p: ArrayLike | None, policy: ArrayLike) -> float:
    """rho(policy) = E[reward] / E[seconds]; a policy is one action per context, or contexts x actions probabilities."""
    reward_xa, seconds_xa = check_tables(reward, seconds)
    p_x = check_p(p, len(reward_xa))
    joint_xa = p_x[:, None] * check_policy(policy, *reward_xa.shape)
    return float((joint_xa * reward_xa).sum() / (joint_xa * seconds_xa).sum())


def optimal_rate(reward: ArrayLike, seconds: ArrayLike, p: ArrayLike | None = None) -> float:
    """rho* = max over policies of the rate: the root of F, bracketed by the extreme ratios reward / seconds.

    Dinkelbach's iteration continues from the bracketed root until the rate of the greedy policy rises no more, which
    is exact up to rounding. Rewards may have any sign. Paper, equation (bandit:fixedpoint).
    """
    reward_xa, seconds_xa = check_tables(reward, seconds)
    p_x = check_p(p, len(reward_xa))
    used = p_x > 0  # contexts that never come must not widen the bracket
    reward_xa, seconds_xa, p_x = reward_xa[used], seconds_xa[used], p_x[used]
    ratios = reward_xa / seconds_xa
    low, high = float(ratios.min()), float(ratios.max())
    if low == high:
        return low

    def excess(rate: float) -> float:
        return float(p_x @ (reward_xa - rate * seconds_xa).max(axis=1))

    if excess(low) <= 0:
        root = low
    elif excess(high) >= 0:
        root = high
    else:
        root = brentq(
            excess, low, high, xtol=1e-15 * max(abs(low), abs(high)), rtol=8 * np.finfo(float).eps, maxiter=500
        )
    best = -np.inf
    # Brent leaves an error in the root; a greedy policy's own rate has none. No policy's rate exceeds the optimal one,
    # so the iterates rise until the policy is optimal, and the largest of them is the answer.
    for _ in range(10_000):
        chosen = (reward_xa - root * seconds_xa).argmax(axis=1)[:, None]
        earned, spent = (p_x @ np.take_along_axis(table, chosen, axis=1)[:, 0] for table in (reward_xa, seconds_xa))
        root = float(earned / spent)
        if root <= best:
            break
        best = root
    return best
