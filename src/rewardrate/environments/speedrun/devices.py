"""Whether the machine is fit for an attempt: found out by the referee itself, never taken from a script's words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time

from rewardrate.environments.speedrun.race import Race
from rewardrate.sandbox.job import gpu_devices

CLEAN_MIB = 300  # what an idle GPU holds at most
WAIT_SECONDS = 60.0
MEMORY = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
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
    end = time.monotonic() + wait_seconds
    while True:
        found = busy(race.processes)
        if not found or time.monotonic() >= end:
            return found
        time.sleep(min(2.0, wait_seconds))


def busy(count: int) -> str:
    """Why `count` GPUs are not free; empty when they are."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "there is no nvidia-smi on this machine"
    command = [tool, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi does not answer: {error}"
    used = [int(line) for line in done.stdout.split() if line.isdigit()]
    if done.returncode != 0 or len(used) < count:
        return f"{len(used)} GPUs answer, and the race needs {count}"
    full = [f"GPU {number}: {mib} MiB" for number, mib in enumerate(used[:count]) if mib > CLEAN_MIB]
    return f"others hold memory ({', '.join(full)})" if full else ""


def available_bytes() -> int:
    """Memory that a new process could have."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = MEMORY.search(file.read())
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else 2**62


def excuses(race: Race, errors: str) -> str:
    """Why a crash may be the device's fault: the script says so and the referee sees it too. Empty when not."""
    if race.device == "cpu" or not NO_DEVICE.search(errors):
        return ""
    return busy(race.processes)
