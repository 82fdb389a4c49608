"""The relative reward: what is left of a reward when the time it took has been paid for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardrate.errors import InputError
from rewardrate.rates.estimate import RateEstimate
from rewardrate.rates.rows import check_valid


def relative_reward(
    reward: ArrayLike,
    seconds: ArrayLike,
    rate: float | RateEstimate,
    *,
    valid: ArrayLike = True,
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
    price = _price(rate)
    if not math.isfinite(penalty):
        raise InputError("penalty", penalty, "it must be a finite number")
    try:
        reward_n, seconds_n = np.broadcast_arrays(np.asarray(reward, float), np.asarray(seconds, float))
        valid_n = np.broadcast_to(np.asarray(valid), reward_n.shape)
    except (TypeError, ValueError):
        raise InputError(
            "reward, seconds, valid", (reward, seconds, valid), "they must be numbers of one shape"
        ) from None
    mask = check_valid(valid_n.ravel(), valid_n.size).reshape(valid_n.shape)
    limit = _limit(limit_seconds, needed=not mask.all())
    _check("reward", reward_n, mask & ~np.isfinite(reward_n), "a reward must be a finite number")
    _check(
        "seconds", seconds_n, mask & ~(np.isfinite(seconds_n) & (seconds_n > 0)), "seconds must be finite and positive"
    )
    with np.errstate(invalid="ignore", over="ignore"):
        left = np.where(mask, reward_n - price * seconds_n, penalty - price * limit)
    return left if left.ndim else float(left)


def _price(rate: float | RateEstimate) -> float:
    price = float(rate)
    if not (math.isfinite(price) and price >= 0):
        raise InputError("rate", price, "a rate must be finite and not negative")
    return price


def _limit(limit_seconds: float | None, *, needed: bool) -> float:
    if limit_seconds is None:
        if needed:
            raise InputError(
                "limit_seconds", None, "an invalid attempt is charged the whole limit, so a limit is needed"
            )
        return 0.0
    if not (math.isfinite(limit_seconds) and limit_seconds > 0):
        raise InputError("limit_seconds", limit_seconds, "it must be finite and positive")
    return float(limit_seconds)


def _check(field: str, values: np.ndarray[Any, Any], bad: np.ndarray[Any, Any], allowed: str) -> None:
    if bad.any():
        row = tuple(int(index) for index in np.argwhere(bad)[0])
        place = f"[{', '.join(map(str, row))}]" if row else ""
        raise InputError(f"{field}{place}", float(values[row]), allowed)
