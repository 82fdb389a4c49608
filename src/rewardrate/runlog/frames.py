"""A run as data frames: what a notebook begins with."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardrate import config
from rewardrate.errors import InputError, MissingExtra
from rewardrate.runlog.log import RunLog
from rewardrate.runlog.rows import AttemptRow, EventRow, StepRow

if TYPE_CHECKING:
    from pandas import DataFrame

STEP = ("step", "rate", "rate_mean", "rate_low", "rate_high", "rate_count", "script_seconds", "checkpoint", "finished")


@dataclass(frozen=True)
class RunFrames:
    """A run of `rewardrate train`, or of an engine that writes the same folder, as tables."""

    folder: Path
    about: dict[str, str]
    "Task, arm, seed, versions, machine."
    settings: dict[str, Any]
    "The resolved recipe by dotted keys."
    attempts: DataFrame
    "A row for each attempt of the committed steps: AttemptRow's fields."
    steps: DataFrame
    "A row a step: the rate with its interval, seconds by phase (seconds_execute), the learner's numbers by name."
    events: DataFrame
    "Notes: resumed, a sandbox failure, the final evaluation."


def load_run(folder: str | Path) -> RunFrames:
    """Read a run folder, also while it is being written. InputError where there is none; needs pandas."""
    below = (
        [] if RunLog.exists(Path(folder)) else [run.parent.name for run in sorted(Path(folder).glob("*/run.sqlite"))]
    )
    if below:
        rule = f"it is a folder of runs: {', '.join(below[:6])}{', ...' if below[6:] else ''}"
        raise InputError("run", str(folder), rule, f"give one of them: {Path(folder) / below[0]}")
    with RunLog.open(Path(folder), read_only=True) as log, log.snapshot():
        text, about = log.config_text(), log.about()
        attempts, steps, events = log.attempts(), log.steps(), log.events()
    try:
        settings = config.leaves(tomllib.loads(text))
    except ValueError as error:
        raise InputError("run", str(folder), f"its config.toml is no TOML ({error})") from None
    return RunFrames(
        folder=Path(folder),
        about=about,
        settings=settings,
        attempts=_frame([dataclasses.asdict(one) for one in attempts], _names(AttemptRow)),
        steps=_frame([_step(one) for one in steps], STEP),
        events=_frame([dataclasses.asdict(one) for one in events], _names(EventRow)),
    )


def _step(row: StepRow) -> dict[str, Any]:
    rate = row.rate
    found = (row.step, rate.rate, rate.mean, rate.low, rate.high, rate.count)
    known = dict(zip(STEP, (*found, row.script_seconds, row.checkpoint, row.finished), strict=True))
    phases = {f"seconds_{name}": seconds for name, seconds in row.phases.items()}
    return known | phases | {name: number for name, number in row.metrics.items() if name not in known}


def _names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _frame(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> DataFrame:
    """All columns that any row has; the known ones also where there is no row."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtra("load_run", "pandas", "agent") from error
    more = dict.fromkeys(name for row in rows for name in row if name not in names)
    return pandas.DataFrame.from_records(rows, columns=[*names, *more])
