"""Numbers that callers give, checked: a wrong one is an InputError that names it."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rewardrate.errors import InputError


def at_least(name: str, value: Any, least: int) -> int:
    """A whole number (numpy's too, but not true or false)."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None or number < least:
        raise InputError(name, value, f"it must be a whole number, at least {least}")
    return number


def finite(
    name: str, value: Any, holds: Callable[[float], bool] = lambda _: True, words: str = "be a finite number"
) -> float:
    """A finite number for which `holds`; `words` says what that means."""
    number = math.nan
    flag = isinstance(value, bool)
    if isinstance(value, numbers.Real) and not flag:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not (math.isfinite(number) and holds(number)):
        raise InputError(name, value, f"it must {words}")
    return number


def state_numbers(
    state: Mapping[str, Any], names: tuple[str, ...], not_negative: tuple[str, ...] = ()
) -> dict[str, float]:
    """Exactly these finite numbers from a saved state; ValueError otherwise."""
    if set(state) != set(names):
        raise ValueError(f"it must hold {', '.join(names)}")
    found = {name: finite(name, state[name]) for name in names}
    for name in not_negative:
        if found[name] < 0:
            raise ValueError(f"{name} must not be negative")
    return found
