"""What the referee says about one attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal[
    "valid",
    "timeout",
    "crash",
    "parse-failure",
    "cadence-violation",
    "reevaluation-mismatch",
    "modified",
    "tampered-data",
    "infrastructure",
]


@dataclass(frozen=True)
class Verdict:
    """One attempt, judged. Only `infrastructure` is our fault: it enters no gradient, no rate, no buffer."""

    status: Status
    'valid, or why not; a timeout is valid all the same when its printed lines hold (paper, appendix "NanoGPT").'
    valid: bool
    val_loss: float | None
    "The believed loss: recomputed by the referee on its hidden tokens. None when there is none."
    printed_loss: float | None
    "What the script printed last; a claim."
    crossed: bool
    "Whether it is valid and the believed loss is at or below the target."
    seconds: float
    "Monotonic wall clock from launch to exit, never below 0.1; the cap itself on a timeout."
    steps: int
    "Step of the last validation."
    message: str
    "The message that the model gets."
    output: str = ""
    "The end of what the script printed, for the record."
    public_loss: float | None = None
    "The recomputed loss on the tokens that the script can see."
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    level: str = ""
    "Isolation it ran under."
    contaminated: bool = False
    "Whether something else used its cores meanwhile."
    printed_seconds: float | None = None
    "The train_time of the last line, in seconds: the script's own word, informational only."

    @property
    def charged(self) -> bool:
        """Whether the policy answers for it."""
        return self.status != "infrastructure"
