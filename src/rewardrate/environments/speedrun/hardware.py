"""What this machine is, in the sentences that a prompt of the race needs: asked, never written down by hand."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

FP8_FROM, FLASH3_FROM = (8, 9), (9, 0)
GENERATIONS = {7: "Volta or Turing", 8: "Ampere or Ada", 9: "Hopper", 10: "Blackwell", 12: "Blackwell"}


@dataclass(frozen=True)
class Hardware:
    """The devices an attempt runs on."""

    processor: str
    cores: int
    gpus: tuple[str, ...] = ()
    "Name of each."
    capability: tuple[int, int] = (0, 0)
    "Compute capability of the first."
    memory_bytes: int = 0
    "Of the first GPU."

    def name(self, device: str, processes: int, cores: int) -> str:
        """What the race runs on, in a few words."""
        if device == "cuda" and self.gpus:
            return f"{processes}x {self.gpus[0]}"
        return f"{cores} cores of {self.processor}"

    def facts(self, device: str) -> str:
        """What a change must be designed for."""
        if device != "cuda" or not self.gpus:
            return (
                f"There is no GPU: the script runs on CPU cores ({self.processor}). float32 is the plain fast path, "
                "Python and kernel launches cost as much as small matrix products, every process has few threads, and "
                "torch.compile has to earn back the seconds it takes."
            )
        major, minor = self.capability
        name, size = self.gpus[0], self.memory_bytes / 2**30
        kind = GENERATIONS.get(major, "of another generation")
        parts = [f"{name} is {kind} (sm_{major}{minor}) with {size:.0f} GiB of memory."]
        if self.capability < FP8_FROM:
            parts.append("It has no FP8 tensor cores: avoid or replace any FP8 path; bfloat16 and TF32 are fast.")
        else:
            parts.append("It has FP8 tensor cores; bfloat16 and TF32 are fast too.")
        if self.capability[:1] == FLASH3_FROM[:1]:
            parts.append("FlashAttention-3 needs its package; SDPA, FlexAttention, Triton and torch.compile are there.")
        else:
            parts.append("FlashAttention-3 is not available; SDPA, FlexAttention, Triton and torch.compile are.")
        return " ".join(parts)


@functools.cache
def here() -> Hardware:
    """The machine that this runs on. GPUs are those that nvidia-smi names; without it there are none."""
    rows = _nvidia()
    gpus = tuple(row[0] for row in rows)
    capability, memory = (0, 0), 0
    if rows:
        major, _, minor = rows[0][1].partition(".")
        capability = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)
        memory = int(float(rows[0][2]) * 2**20) if rows[0][2].replace(".", "").isdecimal() else 0
    return Hardware(_processor(), os.cpu_count() or 1, gpus, capability, memory)


def _nvidia() -> list[list[str]]:
    command = ["nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return [row for row in rows if len(row) == 3] if done.returncode == 0 else []


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names and names[0] else platform.machine() or "an unnamed processor"
