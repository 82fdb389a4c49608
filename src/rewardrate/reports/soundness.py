"""Checks the values of a run log: a damaged database may still open, with values of the wrong type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError
from rewardrate.runlog import AttemptRow, EventRow, StepRow
from rewardrate.runlog.rows import NAME_CHARACTERS


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _or_none(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or kind(value)


ATTEMPT: dict[str, Callable[[Any], bool]] = {
    "id": _is_integer,
    "step": _is_integer,
    "row": _is_integer,
    "parent": _or_none(_is_integer),
    "tokens": _is_integer,
    "valid": _is_integer,
    "seed": lambda value: _text(value) and len(value) <= NAME_CHARACTERS,
    "reward": _number,
    "score": _or_none(lambda value: isinstance(value, int | float)),
    "seconds": _number,
    "rank_key": _or_none(_number),
    "status": _text,
    "message": _text,
    "code": _text,
    "output": _text,
    "relative_reward": _or_none(_number),
}
RATE = ("rate", "mean", "low", "high")


def check(
    folder: Path,
    about: Mapping[str, str],
    steps: Sequence[StepRow],
    attempts: Sequence[AttemptRow],
    events: Sequence[EventRow],
) -> None:
    """InputError that names the first value that cannot be what its column holds."""
    for name, kind in ATTEMPT.items():
        for attempt in attempts:
            if not kind(getattr(attempt, name)):
                raise _damaged(folder, f"{name} of attempt {attempt.id}", getattr(attempt, name))
    for step in steps:
        valid = _is_integer(step.step) and _number(step.script_seconds) and isinstance(step.metrics, Mapping)
        if not valid or not all(_number(getattr(step.rate, name)) for name in RATE):
            raise _damaged(folder, "a step", step.step)
        for name, value in step.metrics.items():
            if not _or_none(_number)(value):
                raise _damaged(folder, f"{name} of step {step.step}", value)
    texts = [*about.items(), *((event.kind, event.message) for event in events)]
    for pair in texts:
        if not all(map(_text, pair)):
            raise _damaged(folder, "about or events", pair)


def _damaged(folder: Path, where: str, value: object) -> InputError:
    rule = f"it is damaged ({where} is {str(value)[:40]!r})"
    return InputError("run log", str(folder), rule, "restore it from a copy")
