"""What an attempt came to, and what every environment can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Status = Literal[
    "ok",
    "format",
    "error",
    "timeout",
    "memory",
    "killed",
    "no-submission",
    "bad-submission",
    "no-gain",
    "edit",
    "modified",
    "parse-failure",
    "cadence-violation",
    "reevaluation-mismatch",
    "tampered-data",
    "sandbox-failure",
]

FLOOR_SECONDS = 0.1  # no attempt is counted as shorter, so that none can claim an unbounded rate (paper, section 4.1)

Message = dict[str, str]
"One turn of a chat: role and content."


@dataclass(frozen=True)
class Outcome:
    """One executed proposal. Only `sandbox-failure` is our fault: it enters no gradient, no rate, no buffer."""

    valid: bool
    reward: float
    "What the attempt earned: 0 when it is not valid (the penalty is the objective's business)."
    score: float | None
    "The task's own metric; None when nothing could be graded."
    seconds: float
    "Seconds of the priced clock, never below the floor; the limit itself on a timeout."
    message: str
    "What the model is told."
    status: Status
    code: str
    "The script that was run; empty when the reply held none."
    clock: str = "wall"
    "Which clock `seconds` is: wall, cpu or warm (seconds without imports)."
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    level: str = ""
    "Isolation it ran under."
    contaminated: bool = False
    "Whether something else used its cores meanwhile, also after repeats."
    trains: bool | None = None
    "Whether the script fits a model, as far as reading it tells. Reported, never punished."
    output: str = ""
    "The end of what the script printed, for the record."

    @property
    def charged(self) -> bool:
        """Whether the policy answers for it; a failure of the sandbox is ours."""
        return self.status != "sandbox-failure"


@dataclass(frozen=True)
class Parent:
    """An earlier attempt that the next proposal is asked to improve."""

    code: str
    message: str


@runtime_checkable
class Environment(Protocol):
    """What the loop asks of an environment; the contract that MLE tasks and the speedrun share."""

    @property
    def limit_seconds(self) -> float:
        """The longest an attempt may take: what a failure is charged for."""

    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """The chat that asks for a proposal: the base prompt, or the self-improvement prompt for `parent`."""

    def execute(
        self,
        replies: Sequence[str],
        on_done: Callable[[int, Outcome], None] | None = None,
        parents: Sequence[Parent | None] | None = None,
    ) -> list[Outcome]:
        """Run every reply, in order of arrival over the slots; outcomes in the order of the replies.

        `parents` are what the replies were asked to improve: a reply may be an edit of its parent.
        """
