"""What a run log takes and gives beside the words of `rewardrate.attempt`. Field names are column names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.attempt import SANDBOX_FAILURE, Message, Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError

FINAL_EVALUATION = "report"  # kind of the event that holds it
NAME_CHARACTERS = 200  # of a seed


@dataclass(frozen=True)
class Origin:
    """What a proposal was made from."""

    prompt: Sequence[Message] = ()
    "The chat that was sent to the policy; empty where the producer does not keep it."
    parent: int | None = None
    "Number of the attempt it was asked to improve; None for the base prompt and for a child of a seed."
    seed: str = ""
    "Name of the seed it was asked to improve: a seed is no attempt of the run and has no number."


@dataclass(frozen=True)
class AttemptRow:
    """One attempt as the record has it: proposal, outcome, and what the learner was given for it.

    The prompt is left to `RunLog.prompt`: those of a long run may be larger than all the rest together.
    """

    id: int
    "Attempt number: 1, 2, ... in order of step and row."
    step: int
    row: int
    "Place in the batch of its update, from 0."
    chain: int
    "The chain it belongs to: its row, where every chain has one attempt a step."
    updates: int
    "Updates of the policy when it wrote the attempt: step - 1 - updates is the attempt's age when it was learned from."
    arrival: int | None
    "Its place among all attempts of the run in the order they ended, from 1; None where chains wait for each other."
    parent: int | None
    seed: str
    reply: str
    "`[no reply: ...]`, with the reason, where the policy gave none."
    tokens: int
    generation_seconds: float
    valid: bool
    reward: float
    score: float | None
    seconds: float
    rank_key: float | None
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

    @property
    def charged(self) -> bool:
        """Whether the policy answers for it; a failure of the sandbox is ours."""
        return self.status != SANDBOX_FAILURE

    @property
    def rank(self) -> float:
        """What it is ranked by among the valid attempts of its run: its rank key, else its reward."""
        return self.reward if self.rank_key is None else self.rank_key


def best(attempts: Iterable[AttemptRow]) -> AttemptRow | None:
    """The best attempt of a run: valid, of the highest rank; of equals the quicker, then the earlier one.

    Rank keys and rewards cannot be compared: where some valid attempts have no rank key (a race that was begun before
    logs kept them), all of them are ranked by reward.
    """
    valid = [attempt for attempt in attempts if attempt.valid]
    keyed = all(attempt.rank_key is not None for attempt in valid)
    return min(
        valid,
        key=lambda attempt: (-(attempt.rank if keyed else attempt.reward), attempt.seconds, attempt.id),
        default=None,
    )


@dataclass(frozen=True)
class StepRow:
    """One committed step."""

    step: int
    rate: RateEstimate
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
    row: int
    "Place in the batch, from 0; of an attempt under way that has no batch yet, its number."
    parent: int | None
    seed: str
    proposal: Proposal
    outcome: Outcome | None
    chain: int
    updates: int
    "Of the policy, when it wrote the attempt."
    arrival: int | None = None
    "Its place among all attempts of the run in the order they ended, from 1; None where that is not kept."


@dataclass(frozen=True)
class Resumed:
    """Where a run stands: everything a new process needs to resume as if it had never stopped."""

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
