"""Columns of a run log, checked: numbers, integers and booleans; errors name the bad row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.errors import InputError

Array = NDArray[np.float64]
COLUMNS = ("step", "row", "chain", "valid", "reward", "score", "seconds", "status")
"The columns an evaluation needs; `RunLog.table(*COLUMNS)` returns them."


def column(columns: Mapping[str, Sequence[Any]], name: str) -> Array:
    """One column as numbers; None becomes NaN."""
    if name not in columns:
        raise InputError("columns", name, "there is no such column", f"give {', '.join(COLUMNS)}")
    values = list(columns[name])
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {name}", values, "it must hold numbers") from None
    if not array.size:
        raise InputError(f"column {name}", "empty", "there are no attempts to evaluate")
    return array


def boolean_column(flags_N: Array) -> NDArray[np.bool_]:
    """The column `valid` as booleans."""
    if not np.isin(flags_N, (0.0, 1.0)).all():
        row = int(np.flatnonzero(~np.isin(flags_N, (0.0, 1.0)))[0])
        raise InputError(f"valid[{row}]", float(flags_N[row]), "it must be true or false")
    return flags_N.astype(bool)


def integer_column(columns: Mapping[str, Sequence[Any]], name: str) -> NDArray[np.int64]:
    """One column of integers."""
    array = column(columns, name)
    if not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        raise InputError(f"column {name}", columns[name], "it must hold whole numbers")
    return array.astype(np.int64)


def same_length(columns: Mapping[str, Sequence[Any]], size: int, names: tuple[str, ...]) -> None:
    """Refuse columns of different lengths."""
    for name in (*names, *(["status"] if "status" in columns else [])):
        if len(columns[name]) != size:
            raise InputError(f"column {name}", f"{len(columns[name])} rows", f"step has {size} rows")


def check_rows(seconds_N: Array, value_N: Array, valid_N: NDArray[np.bool_], metric: str) -> None:
    """Refuse seconds that are negative or not finite, and rewards of valid attempts that are not finite."""
    bad = ~(np.isfinite(seconds_N) & (seconds_N >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"seconds[{row}]", float(seconds_N[row]), "seconds must be finite and not negative")
    odd = valid_N & ~np.isfinite(value_N)
    if metric == "reward" and odd.any():  # a score may be undefined or infinite
        row = int(np.flatnonzero(odd)[0])
        raise InputError(f"reward[{row}]", float(value_N[row]), "a reward must be a finite number")
