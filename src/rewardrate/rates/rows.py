"""Rows of (reward, seconds, valid): checked before anything is changed, and copied."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.errors import InputError, nearest

Invalid = Literal["zero", "exclude"]


class Rows(NamedTuple):
    """Clean rows, in the order they came."""

    reward: NDArray[np.float64]
    seconds: NDArray[np.float64]


def check_invalid(invalid: str) -> Invalid:
    """The rule for invalid rows, or InputError."""
    for rule in get_args(Invalid):
        if isinstance(invalid, str) and invalid == rule:
            return rule  # type: ignore[no-any-return]
    raise InputError("invalid", invalid, "it must be 'zero' or 'exclude'", nearest(str(invalid), get_args(Invalid)))


def check_rows(reward: ArrayLike, seconds: ArrayLike, valid: ArrayLike | None, invalid: Invalid) -> Rows:
    """Rows as float vectors, with the rule for invalid ones applied. InputError names the first bad row."""
    reward_n, seconds_n = vector("reward", reward), vector("seconds", seconds)
    if reward_n.size != seconds_n.size:
        raise InputError("seconds", f"{seconds_n.size} rows", f"reward has {reward_n.size} rows; they must be as many")
    if not np.isfinite(reward_n).all():
        row = int(np.flatnonzero(~np.isfinite(reward_n))[0])
        raise InputError(
            f"reward[{row}]", float(reward_n[row]), "a reward must be a finite number", "drop or mend the row"
        )
    if not (np.isfinite(seconds_n).all() and (seconds_n > 0).all()):
        row = int(np.flatnonzero(~(np.isfinite(seconds_n) & (seconds_n > 0)))[0])
        remedy = "floor them (the paper uses 0.1) or drop the row"
        raise InputError(f"seconds[{row}]", float(seconds_n[row]), "seconds must be finite and positive", remedy)
    if valid is None:
        return Rows(reward_n, seconds_n)
    valid_n = check_valid(valid, reward_n.size)
    if invalid == "exclude":
        return Rows(reward_n[valid_n], seconds_n[valid_n])
    return Rows(np.where(valid_n, reward_n, 0.0), seconds_n)


def check_valid(valid: ArrayLike, size: int) -> NDArray[np.bool_]:
    """The mask of valid rows: true/false or 0/1, one per row."""
    mask = np.atleast_1d(np.asarray(valid))
    if mask.ndim != 1 or mask.size != size:
        raise InputError("valid", f"shape {mask.shape}", f"it must be a vector of {size}, one for each row")
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.isin(mask, (0, 1)).all()):
        raise InputError("valid", mask.tolist(), "each entry must be true or false")
    return mask.astype(bool)


def vector(field: str, values: Any) -> NDArray[np.float64]:
    """A fresh float vector from a number or a flat sequence of numbers. Text, dates and masked arrays are refused."""
    rule = "it must be a number or a vector of numbers"
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(field, "a masked array", rule, "fill or drop the masked entries")
    try:
        array = np.atleast_1d(np.asarray(values))
        plain = array.dtype.kind in "biuf" or array.size == 0
        if not plain and (array.dtype != object or not all(isinstance(value, numbers.Real) for value in array.ravel())):
            raise InputError(field, values, rule)
        if array.ndim != 1:
            raise InputError(field, f"an array of shape {array.shape}", rule)
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, values, rule) from None
