"""The attempts of a run on another engine in one file: a line of JSON for every step, only ever added to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError


def append(path: Path, step: int, attempts: Sequence[dict[str, Any]]) -> None:
    """Add the line of a step. What a killed process left of a line before it is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"step": step, "attempts": list(attempts)}).encode()
    with open(path, "ab+") as file:
        whole = _whole(file.seek(0, os.SEEK_END), file)
        file.truncate(whole)
        file.write(line + b"\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Every attempt, by step, as it counts: a step that was done again replaces itself and all that came after it.

    A last line without its end is passed over. Anything else that is no such line raises InputError.
    """
    steps: dict[int, list[dict[str, Any]]] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            told = json.loads(line)
            step, attempts = int(told["step"]), list(told["attempts"])
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path.name}, line {number}", line[:60], "it is not the line of a step") from None
        steps = {before: rows for before, rows in steps.items() if before < step} | {step: attempts}
    return [{"step": step, **attempt} for step, attempts in steps.items() for attempt in attempts]


def _whole(size: int, file: Any, piece: int = 2**16) -> int:
    """How many bytes of the file are whole lines."""
    end = size
    while end > 0:
        start = max(0, end - piece)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return int(start + at + 1)
        end = start
    return 0
