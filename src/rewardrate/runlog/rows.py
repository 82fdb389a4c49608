"""The rows of a run log, as plain values. Field names are column names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError


@dataclass(frozen=True)
class ProposalRow:
    """What the policy proposed for one row of the batch, before it was run."""

    row: int
    "Place in the batch, from 0: the chain."
    reply: str
    parent: int | None = None
    "Number of the attempt it was asked to improve; None for the base prompt."
    prompt: str = ""
    tokens: int = 0
    "Tokens of the reply."
    generation_seconds: float = 0.0
    payload: bytes = b""
    "What the learner needs again after a crash (tokens, log-probabilities). Kept until a later resume point holds it."


@dataclass(frozen=True)
class OutcomeRow:
    """What one executed proposal came to."""

    valid: bool
    reward: float
    score: float | None
    seconds: float
    status: str
    message: str = ""
    code: str = ""
    clock: str = "wall"
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    level: str = ""
    contaminated: bool = False
    trains: bool | None = None
    output: str = ""


@dataclass(frozen=True)
class AttemptRow:
    """One attempt as the record has it: proposal, outcome, and what it was worth to the learner."""

    id: int
    "Attempt number: 1, 2, ... in order of step and row."
    step: int
    row: int
    parent: int | None
    prompt: str
    reply: str
    tokens: int
    generation_seconds: float
    valid: bool
    reward: float
    score: float | None
    seconds: float
    status: str
    message: str
    code: str
    clock: str
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    level: str
    contaminated: bool
    trains: bool | None
    output: str
    relative_reward: float | None
    "Reward after paying for the time, without the bonus; None for a failure of the sandbox."
    bonus: float
    finished: float
    "When its outcome was written: seconds since 1970."


@dataclass(frozen=True)
class RateRow:
    """The rate estimate after a step: `rate` is what was charged, `low` to `high` the 95 % interval."""

    rate: float
    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class StepRow:
    """One committed step."""

    step: int
    rate: RateRow
    metrics: Mapping[str, float | None]
    "Numbers of the learner; one that was not finite reads None."
    phases: Mapping[str, float]
    "Seconds by phase (propose, execute, learn, ...)."
    script_seconds: float
    "Seconds of all charged attempts up to and with this step: the budget used."
    checkpoint: str | None
    "Folder below checkpoints/; only the latest two steps that had one still name it."
    finished: float


@dataclass(frozen=True)
class EventRow:
    """Something worth a note: resumed, a sandbox failure, an interruption."""

    time: float
    step: int
    "The latest committed step at that time."
    kind: str
    message: str


@dataclass(frozen=True)
class Recorded:
    """A proposal of a step that the resume point does not contain, and its outcome if it was executed."""

    attempt: int
    proposal: ProposalRow
    outcome: OutcomeRow | None


@dataclass(frozen=True)
class Resumed:
    """Where a run stands: everything a new process needs to go on as if nothing had happened."""

    step: int
    "The resume point: the latest step whose states and checkpoint are both there; 0 before the first."
    states: Mapping[str, Any]
    checkpoint: Path | None
    recorded: Mapping[int, tuple[Recorded, ...]]
    """Step -> its proposals, for every step after the resume point that has begun. Use them instead of proposing, and
    execute only those without an outcome."""


def check_finite(row: Any, field: str) -> None:
    """InputError if a number of this dataclass is NaN or infinite: SQLite would turn NaN into nothing."""
    for column in dataclasses.fields(row):
        value = getattr(row, column.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{field}.{column.name}", value, "it must be a finite number")
