"""What became of one script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

Status = Literal["ok", "error", "timeout", "memory", "killed", "sandbox-failure"]
Clock = Literal["wall", "cpu", "warm"]


@dataclass(frozen=True)
class Result:
    """One run. Only "sandbox-failure" is our fault; it is never charged to the policy."""

    status: Status
    """ok: exit code 0. error: another one. killed: a signal, a limit other than time and memory, or a box that broke
    while the script ran (see message)."""
    seconds: float
    """Monotonic wall clock from exec to exit of the main process, or until the last process that outlives it is gone;
    the limit itself on a timeout. With the warm clock it starts after the imports that every script is spared."""
    cpu_seconds: float
    """CPU time of the whole tree. With the CPU clock, where no control group counts it, the most that it can have been
    (docs/sandbox.md)."""
    peak_memory_bytes: int
    stdout: str
    stderr: str
    files: Mapping[str, bytes]
    "What was collected; refused and missing ones are in `refused`."
    message: str = ""
    "Why, in a few words, when the status is not ok."
    exit_code: int | None = None
    signal: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    "File name -> why it was not collected (missing, symlink, hardlink, not a file, too big)."
    level: str = ""
    "Isolation it ran under (see levels)."
    wait_seconds: float = 0.0
    "Time the main thread was ready but had no core, beyond what the script's own other threads and processes ran."
    foreign_share: float = 0.0
    "Share of the owned cores' time that others used meanwhile."
    overhead_seconds: float = 0.0
    "Set-up, clean-up and collection, outside the measured window."
    settle_seconds: float = 0.0
    "From the script's exit or deadline until its whole tree was gone and the report was here."
    stragglers: int = 0
    "Processes that outlived the main one and were killed."

    clock: Clock = "wall"
    "What `priced_seconds` are seconds of."
    runs: int = 1
    "How many times it was run for this measurement."

    @classmethod
    def failure(cls, why: str, clock: Clock, level: str = "") -> Self:
        """The sandbox failed; the script is not charged."""
        return cls(
            "sandbox-failure", 0.0, 0.0, 0, stdout="", stderr="", files={}, message=why, level=level, clock=clock
        )

    @property
    def priced_seconds(self) -> float:
        """The seconds of the chosen clock: wall and warm -> `seconds`, cpu -> `cpu_seconds`.

        A timeout is charged the limit by every clock: asleep, it would cost no CPU.
        """
        return self.cpu_seconds if self.clock == "cpu" and self.status != "timeout" else self.seconds

    @property
    def contamination(self) -> float:
        """The larger of the shares of cores that others used and of time spent waiting for a core."""
        return max(self.foreign_share, self.wait_seconds / max(self.seconds, 0.2))

    @property
    def contaminated(self) -> bool:
        """Whether something else used more than 5 % of the cores or of the time."""
        return self.contamination > 0.05
