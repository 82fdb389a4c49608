"""rewardrate doctor: what this machine can do, and the command that adds what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate import __version__
from rewardrate.cli.parser import Command, Parser
from rewardrate.cli.terminal import bold, table

DETAILS = """\
Looks at cores, memory, GPU, how well untrusted scripts can be isolated (by trying), and which optional parts are
installed. Changes nothing. The exit code is 0: a missing part is a choice, not a fault.

examples:
  rewardrate doctor
  rewardrate doctor --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command(
        "say what this machine can do, and the command that adds what is missing", DETAILS, Parser.flag_json, _doctor
    )
    return _doctor(Parser("rewardrate doctor", command).parse(arguments))


def _doctor(args: argparse.Namespace) -> int:
    found = examine()
    if args.json:
        print(json.dumps(found))
        return 0
    machine = found["machine"]
    print(bold(f"rewardrate {__version__} on Python {machine['python']}, {machine['system']}"))
    rows = [
        ["cores", str(machine["cores"])],
        ["memory", f"{machine['memory_bytes'] / 2**30:.1f} GiB" if machine["memory_bytes"] else "unknown"],
        ["disk here", f"{machine['disk_bytes'] / 2**30:.0f} GiB free"],
        ["GPU", "; ".join(found["gpus"]) or "none"],
        ["sandbox", found["sandbox"]["level"]],
        ["", f"keeps: {found['sandbox']['guarantees']}"],
        ["", f"does not: {found['sandbox']['lacks']}"],
    ]
    if found["sandbox"]["remedy"]:
        rows.append(["", f"better: {found['sandbox']['remedy']}"])
    print(table(["what", "here"], rows))
    print()
    extras = found["extras"]
    print(table(["extra", "for", "state"], [[e["extra"], e["purpose"], e["state"]] for e in extras]))
    missing = [extra for extra in extras if extra["missing"]]
    if missing:
        print("\nto add a missing part:")
        for extra in missing:
            print(f"  {extra['command']}")
    return 0


PURPOSES = {
    "bandit": "the bandit laboratory",
    "agent": "the language-model agent, rates.Neural",
    "speedrun": "the NanoGPT race",
    "gym": "Gymnasium environments, Stable-Baselines3",
    "report": "figures",
    "ray": "several machines",
    "vllm": "fast sampling on GPUs (own environment)",
    "verl": "training over several GPUs (own environment)",
    "dev": "working on rewardrate itself",
}


def examine() -> dict[str, Any]:
    """Everything the doctor knows, as plain JSON."""
    from rewardrate.sandbox.levels import try_isolation

    isolation = try_isolation()
    level = isolation.level
    return {
        "version": __version__,
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": usable_cores(),
            "memory_bytes": memory_bytes(),
            "disk_bytes": shutil.disk_usage(".").free,
        },
        "gpus": gpus(),
        "sandbox": {
            "level": level.name,
            "guarantees": level.guarantees,
            "lacks": level.lacks,
            "remedy": level.remedy,
            "trials": dict(isolation.trials),
        },
        "extras": [_extra(name, purpose) for name, purpose in PURPOSES.items()],
    }


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Memory this process may use: the machine's, or its group's limit where that is lower; 0 if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return int(total)


def gpus() -> list[str]:
    """NVIDIA GPUs as the driver names them; Apple's as "Apple GPU"."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return ["Apple GPU"]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (subprocess.SubprocessError, OSError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _extra(name: str, purpose: str) -> dict[str, Any]:
    missing = [package for package in requirements(name) if not _installed(package)]
    state = f"missing {', '.join(missing)}" if missing else "installed"
    command = f"{shlex.quote(sys.executable)} -m pip install 'rewardrate[{name}]'"
    return {"extra": name, "purpose": purpose, "missing": missing, "state": state, "command": command}


def requirements(extra: str) -> list[str]:
    """Names of the packages an extra brings, read from our own metadata."""
    try:
        lines = importlib.metadata.requires("rewardrate") or []
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return ["rewardrate"]
    marked = [line for line in lines if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", line)]
    return [
        name for line in marked if (name := re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0]) != "rewardrate"
    ]


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
