"""What one script may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rewardrate.errors import InputError

GIB, MIB = 2**30, 2**20


@dataclass(frozen=True)
class Limits:
    """Hard limits of one run. Defaults are the paper's: two cores, 16 GB, ten minutes."""

    seconds: float = 600.0
    "Wall clock from exec to exit; at the deadline the whole tree is killed."
    memory_bytes: int = 16 * GIB
    "All processes together, with what they keep in the box's file systems."
    cores: int = 2
    "Cores that no other sandbox uses while the script is timed."
    processes: int = 128
    "Processes and threads at once."
    disk_bytes: int = 2 * GIB
    "The working directory; /tmp and /dev/shm get a quarter of it each."
    output_bytes: int = 64 * MIB
    "Standard output and error together; the head and tail of it are kept."
    file_bytes: int = 64 * MIB
    "The largest file that is collected."

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.name != "seconds"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise InputError(f"limits.{field.name}", value, f"it must be a {'whole ' if whole else ''}number")
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"limits.{field.name}", value, "it must be positive")
