"""Tables of a contextual bandit with times, checked: mean reward and seconds per context and action, and p(context)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.errors import InputError

Array = NDArray[np.float64]
LARGEST = 1e100  # products and ratios of such numbers, summed, still fit 64-bit arithmetic
RANGE = f"its size must lie within {1 / LARGEST:g} and {LARGEST:g}: rescale the table"


def check_tables(reward: ArrayLike, seconds: ArrayLike) -> tuple[Array, Array]:
    """Reward and seconds as contexts x actions arrays; a vector is one context. InputError names the entry."""
    reward_xa, seconds_xa = _table("reward", reward), _table("seconds", seconds)
    if reward_xa.shape != seconds_xa.shape:
        raise InputError(
            "seconds", f"shape {seconds_xa.shape}", f"reward has shape {reward_xa.shape}; they must be equal"
        )
    size = np.abs(reward_xa)
    if not (size.max() <= LARGEST and ((size >= 1 / LARGEST) | (size == 0)).all()):  # NaN fails too
        _check_entries("reward", reward_xa, np.isfinite(reward_xa), "a mean reward must be finite")
        _check_entries("reward", reward_xa, (size == 0) | ((size >= 1 / LARGEST) & (size <= LARGEST)), RANGE)
    if not (seconds_xa.min() >= 1 / LARGEST and seconds_xa.max() <= LARGEST):
        positive = np.isfinite(seconds_xa) & (seconds_xa > 0)
        _check_entries("seconds", seconds_xa, positive, "mean seconds must be finite and positive")
        _check_entries("seconds", seconds_xa, (seconds_xa >= 1 / LARGEST) & (seconds_xa <= LARGEST), RANGE)
    return reward_xa, seconds_xa


def check_p(p: ArrayLike | None, contexts: int) -> Array:
    """Probabilities of the contexts; None: uniform."""
    if p is None:
        return np.full(contexts, 1 / contexts)
    p_x = np.atleast_1d(np.asarray(p, dtype=float))
    if p_x.shape != (contexts,):
        raise InputError("p", f"shape {p_x.shape}", f"there are {contexts} contexts; it must be one number for each")
    _check_entries("p", p_x, np.isfinite(p_x) & (p_x >= 0), "a probability must be finite and not negative")
    total = float(p_x.sum())
    if abs(total - 1) > 1e-9:
        raise InputError("p", p_x.tolist(), f"the probabilities sum to {total:.12g}; they must sum to 1")
    return p_x


def check_policy(policy: ArrayLike, contexts: int, actions: int) -> Array:
    """A policy as contexts x actions probabilities: given as such, or as one action number per context."""
    array = np.asarray(policy)
    if array.shape == (contexts,) and array.dtype.kind in "iu":
        bad = (array < 0) | (array >= actions)
        _check_entries("policy", array, ~bad, f"an action is a number from 0 to {actions - 1}")
        return np.asarray(np.eye(actions)[array])
    if array.shape != (contexts, actions):
        shapes = f"{contexts} whole numbers (an action each) or {contexts} x {actions} probabilities"
        raise InputError("policy", f"shape {array.shape}, {array.dtype}", f"it must be {shapes}")
    pi = array.astype(float)
    _check_entries("policy", pi, np.isfinite(pi) & (pi >= 0), "a probability must be finite and not negative")
    rows = np.flatnonzero(np.abs(pi.sum(axis=1) - 1) > 1e-9)
    if rows.size:
        row = int(rows[0])
        raise InputError(
            f"policy[{row}]", pi[row].tolist(), f"the probabilities sum to {pi[row].sum():.12g}; they must sum to 1"
        )
    return pi


def check_rate(rate: float, field: str = "rate") -> float:
    """A finite rate, of either sign."""
    value = float(rate)
    if not np.isfinite(value):
        raise InputError(field, rate, "it must be a finite number")
    return value


def _table(field: str, values: ArrayLike) -> Array:
    try:
        table = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(field, values, "it must be a contexts x actions table of numbers") from None
    if table.ndim == 1:
        table = table[None] if table.size else table.reshape(0, 1)
    if table.ndim != 2:
        raise InputError(field, f"shape {table.shape}", "it must be a contexts x actions table of numbers")
    for axis, name in enumerate(("contexts", "actions")):
        if not table.shape[axis]:
            raise InputError(field, f"0 {name}", f"there must be at least one of the {name}")
    return table


def _check_entries(field: str, values: NDArray[np.generic], good: NDArray[np.bool_], allowed: str) -> None:
    if not good.all():
        place = tuple(int(i) for i in np.argwhere(~good)[0])
        raise InputError(f"{field}[{', '.join(map(str, place))}]", values[place].item(), allowed)
