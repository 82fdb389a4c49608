"""The relative reward: what is left of a reward when the time it took has been paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import finite
from rewardrate.errors import InputError
from rewardrate.rates.rows import check_valid, vector

Array = NDArray[np.float64]


def relative_reward(
    reward: ArrayLike,
    seconds: ArrayLike,
    rate: float | RateEstimate,
    *,
    valid: ArrayLike | None = True,
    limit_seconds: float | None = None,
    penalty: float = -10.0,
) -> Any:
    """Reward left after paying for the time used: a float for numbers, an array for vectors.

        valid:    reward  - rate * seconds
        invalid:  penalty - rate * limit_seconds

    A failure is charged the whole limit: otherwise a script that fails on its first line would beat every honest
    attempt (reward 0, seconds -> 0). So `limit_seconds` is required as soon as an attempt is invalid; an invalid
    attempt's own reward and seconds are not looked at. Paper, section 4.1 and equation (mle:arms).
    """
    price = rate.rate if isinstance(rate, RateEstimate) else rate
    price = finite("rate", price, lambda number: number >= 0, "be a finite number, not negative")
    penalty = finite("penalty", penalty)
    reward_n, seconds_n, mask = _aligned(reward, seconds, True if valid is None else valid)
    if limit_seconds is not None:
        limit_seconds = finite("limit_seconds", limit_seconds, lambda number: number > 0, "be finite and positive")
    elif not mask.all():
        raise InputError("limit_seconds", None, "an invalid attempt is charged the whole limit, so a limit is needed")
    _check("reward", reward_n, mask & ~np.isfinite(reward_n), "a reward must be a finite number")
    usable = np.isfinite(seconds_n) & (seconds_n > 0)
    _check("seconds", seconds_n, mask & ~usable, "seconds must be finite and positive")
    with np.errstate(invalid="ignore", over="ignore"):
        left = np.where(mask, reward_n - price * seconds_n, penalty - price * (limit_seconds or 0.0))
    _check(
        "seconds", seconds_n, ~np.isfinite(left), f"at the price {price:g} the charge does not fit 64-bit arithmetic"
    )
    return left if left.ndim else float(left)


def _aligned(reward: ArrayLike, seconds: ArrayLike, valid: ArrayLike) -> tuple[Array, Array, NDArray[np.bool_]]:
    """The three as arrays of one shape; a number goes with anything."""
    try:
        columns = [
            vector(name, np.ravel(given)).reshape(np.shape(given))
            for name, given in (("reward", reward), ("seconds", seconds))
        ]
        reward_n, seconds_n, valid_n = np.broadcast_arrays(*columns, np.asarray(valid))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "reward, seconds, valid", (reward, seconds, valid), "they must be numbers of one shape"
        ) from None
    return reward_n, seconds_n, check_valid(valid_n.ravel(), valid_n.size).reshape(valid_n.shape)


def _check(field: str, values: Array, bad: NDArray[np.bool_], allowed: str) -> None:
    if bad.any():
        row = tuple(int(index) for index in np.argwhere(bad)[0])
        place = f"[{', '.join(map(str, row))}]" if row else ""
        raise InputError(f"{field}{place}", float(values[row]), allowed)
