"""Whether the machine is fit for an attempt: found out by the referee itself, never taken from a script's words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rewardrate.environments.speedrun.race import Race
from rewardrate.sandbox.job import gpu_devices

CLEAN_MIB = 300  # what an idle GPU holds at most
CONTEXT_MIB = 1024  # what CUDA takes for itself where a process uses a GPU: context, kernels, libraries
WAIT_SECONDS = 60.0
PROC = Path("/proc")
MEMORY = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
KILLS = re.compile(r"^oom_kill (\d+)", re.MULTILINE)
NO_DEVICE = re.compile(
    r"CUDA out of memory|busy or unavailable|no CUDA-capable device|CUDA driver|NCCL.{0,80}system error"
)


def files(race: Race) -> tuple[str, ...]:
    """Device files that an attempt needs: those of the GPUs, or none."""
    return gpu_devices() if race.device == "cuda" else ()


def variables(race: Race) -> dict[str, str]:
    """Where the driver's libraries are, on machines that say so in the environment."""
    path = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": path} if race.device == "cuda" and path else {}


def trouble(race: Race, wait_seconds: float = WAIT_SECONDS) -> str:
    """Why an attempt cannot be run fairly now; empty when it can. Waits for GPUs that others use."""
    if race.device == "cpu":
        return ""
    if cuda := _cuda():
        cuda.empty_cache()  # what our own process only keeps for later is the attempt's for now
    end = time.monotonic() + wait_seconds
    while True:
        found = busy(race.processes)
        if not found or time.monotonic() >= end:
            return found
        time.sleep(min(2.0, wait_seconds))


def busy(count: int) -> str:
    """Why `count` GPUs are not free; empty when they are. What this process itself holds there does not count.

    A policy on the race's GPU waits while attempts run; it takes none of their time, only of the GPU's memory.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "there is no nvidia-smi on this machine"
    command = [tool, "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi does not answer: {error}"
    used = [(name.strip(), int(mib)) for name, _, mib in map(_cells, done.stdout.splitlines()) if mib.isdigit()]
    if done.returncode != 0 or len(used) < count:
        return f"{len(used)} GPUs answer, and the race needs {count}"
    mine = own_mib()
    held = [(number, mib - mine.get(_bare(name), 0)) for number, (name, mib) in enumerate(used[:count])]
    full = [f"GPU {number}: {mib} MiB" for number, mib in held if mib > CLEAN_MIB]
    return f"others hold memory ({', '.join(full)})" if full else ""


def own_mib() -> dict[str, int]:
    """GPU (its uuid) -> MiB that this process may hold there at most; empty where it uses none.

    torch is asked, for the driver names no processes inside containers.
    """
    cuda = _cuda()
    if cuda is None:
        return {}
    held = {number: cuda.memory_reserved(number) for number in range(cuda.device_count())}
    names = {number: _bare(str(cuda.get_device_properties(number).uuid)) for number in held}
    return {names[number]: -(-count // 2**20) + CONTEXT_MIB for number, count in held.items() if count}


def _cuda() -> Any:
    """torch.cuda, if this process has imported torch and uses GPUs; neither is started for the question."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _cells(line: str) -> tuple[str, str, str]:
    name, comma, mib = line.partition(",")
    return name, comma, mib.strip()


def _bare(name: str) -> str:
    """A GPU's uuid as torch and as nvidia-smi write it, alike."""
    return name.removeprefix("GPU-").lower()


def available_bytes() -> int:
    """Memory that a new process could have."""
    found = _number(MEMORY, "meminfo")
    return 2**62 if found is None else found * 1024


def memory_kills() -> int:
    """How many processes the kernel has killed for want of memory since it was started; 0 where it does not say."""
    return _number(KILLS, "vmstat") or 0


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    try:
        found = pattern.search((PROC / name).read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) if found else None


def excuses(race: Race, errors: str) -> str:
    """Why a crash may be the device's fault: the script says so and the referee sees it too. Empty when not."""
    if race.device == "cpu" or not NO_DEVICE.search(errors):
        return ""
    return busy(race.processes)
