"""Natural policy gradient on the relative value, with the rate of the greedy policy (theorem 2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rewardrate.errors import InputError
from rewardrate.theory.bandit import Ties, greedy_policy, policy_rate
from rewardrate.theory.tables import Array, check_p, check_rate, check_tables


class NPGStep(NamedTuple):
    """State of the iteration after `k` updates."""

    k: int
    rate: float
    "rho_k, the rate this update was charged at."
    mean_rate: float
    "The running average of rho_1 .. rho_k."
    theta: Array
    "Logits, contexts x actions."
    policy: Array
    "softmax(theta)."


def npg(
    reward: ArrayLike,
    seconds: ArrayLike,
    p: ArrayLike | None = None,
    *,
    learning_rate: float,
    start: float = 0.0,
    rates: Iterable[float] | None = None,
    theta: ArrayLike | None = None,
    ties: Ties = "first",
    steps: int | None = None,
) -> Iterator[NPGStep]:
    """Yield the steps of theta_x += learning_rate * (q_rho_k(x, .) - <pi(.|x), q_rho_k(x, .)>).

    rho_1 = start; then rho_{k+1} is the rate of the policy that is greedy at the running average of rho_1 .. rho_k.
    Or any sequence is given as `rates`. Logits begin at zero unless `theta` is given. Paper, theorem 2.
    """
    reward_xa, seconds_xa = check_tables(reward, seconds)
    p_x = check_p(p, len(reward_xa))
    if not (np.isfinite(learning_rate) and learning_rate > 0):
        raise InputError("learning_rate", learning_rate, "it must be finite and positive")
    logits = np.zeros(reward_xa.shape) if theta is None else np.array(theta, dtype=float)
    if logits.shape != reward_xa.shape or not np.isfinite(logits).all():
        raise InputError("theta", f"shape {logits.shape}", f"it must be {reward_xa.shape} finite numbers")
    if steps is not None and steps < 1:
        raise InputError("steps", steps, "it must be at least 1")
    check_rate(start, "start")

    def iterates() -> Iterator[NPGStep]:
        given = None if rates is None else iter(rates)
        theta_xa, mean_rate, rate = logits, 0.0, float(start)
        for k in itertools.count(1):
            if given is not None:
                following = next(given, None)
                if following is None:
                    return
                rate = check_rate(following, f"rates[{k - 1}]")
            q_xa = reward_xa - rate * seconds_xa
            pi_xa = softmax(theta_xa)
            theta_xa = theta_xa + learning_rate * (q_xa - (pi_xa * q_xa).sum(axis=1, keepdims=True))
            mean_rate += (rate - mean_rate) / k
            yield NPGStep(k, rate, mean_rate, theta_xa, softmax(theta_xa))
            if given is None:
                rate = policy_rate(
                    reward_xa, seconds_xa, p_x, greedy_policy(reward_xa, seconds_xa, mean_rate, ties=ties)
                )

    return itertools.islice(iterates(), steps)


def softmax(theta: Array) -> Array:
    """Probabilities along the last axis, without overflow."""
    assert theta.ndim >= 1
    shifted = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))
