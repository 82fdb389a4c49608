"""Columns of a run log, checked: numbers, whole numbers and truth values, every bad row named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.errors import InputError

Array = NDArray[np.float64]
COLUMNS = ("step", "row", "valid", "reward", "score", "seconds", "status")
"What a run is evaluated from; `RunLog.table(*COLUMNS)` returns them."


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


def truth(truth_N: Array) -> NDArray[np.bool_]:
    """The column `valid` as booleans."""
    if not np.isin(truth_N, (0.0, 1.0)).all():
        row = int(np.flatnonzero(~np.isin(truth_N, (0.0, 1.0)))[0])
        raise InputError(f"valid[{row}]", float(truth_N[row]), "it must be true or false")
    return truth_N.astype(bool)


def whole_column(columns: Mapping[str, Sequence[Any]], name: str) -> NDArray[np.int64]:
    """One column of whole numbers."""
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
    """Refuse seconds that are no time, and rewards of valid attempts that are no finite numbers."""
    bad = ~(np.isfinite(seconds_N) & (seconds_N >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"seconds[{row}]", float(seconds_N[row]), "seconds must be finite and not negative")
    odd = valid_N & ~np.isfinite(value_N)
    if metric == "reward" and odd.any():  # a score may be undefined (left out) or infinite (and so is the mean)
        row = int(np.flatnonzero(odd)[0])
        raise InputError(f"reward[{row}]", float(value_N[row]), "a reward must be a finite number")
