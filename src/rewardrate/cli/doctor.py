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
from rewardrate.errors import OWN_ENVIRONMENT, wanted

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


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _doctor(args: argparse.Namespace) -> int:
    found = examine()
    if args.json:
        print(json.dumps(found))
        return 0
    machine = found["machine"]
    print(bold(f"rewardrate {__version__} on Python {machine['python']}, {machine['system']}"))
    rows = [
        ["cores", f"{machine['cores']:g}"],
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
    print(table(["extra", "for", "state"], [[e["extra"], e["purpose"], _shown(e)] for e in extras]))
    missing = [extra for extra in extras if extra["missing"]]
    if missing:
        print("\nto add a missing part:")
        for extra in missing:
            print(f"  {extra['command']}")
    return 0


def _shown(extra: dict[str, Any]) -> str:
    """The state of an extra in a few words: pip has the whole list, and so has --json."""
    missing = extra["missing"]
    return f"missing {', '.join(missing[:2])}, {len(missing) - 2} more" if missing[3:] else str(extra["state"])


PURPOSES = {
    "bandit": "the bandit laboratory",
    "bandit-gpu": "the bandit laboratory on an NVIDIA GPU",
    "agent": "the language-model agent, rates.Neural",
    "speedrun": "the NanoGPT race",
    "gym": "Gymnasium environments, Stable-Baselines3",
    "report": "figures",
    "ray": "several machines",
    "trl": "GRPO by TRL",
    "vllm": "fast sampling on GPUs (own environment)",
    "verl": "training over several GPUs (own environment)",
    "tensorboard": "curves of a run in TensorBoard",
    "wandb": "curves of a run in Weights & Biases",
    "mlflow": "curves of a run in MLflow",
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


def usable_cores() -> float:
    """Cores this process may use: those it may run on, or its group's share of them where that is less."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for folder in _own_groups("cpu"):
        quota, period = (
            _words(folder / "cpu.max")
            or (_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us") + ["", ""])[:2]
        )
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, int(quota) / int(period))
    return cores


def memory_bytes() -> int:
    """Memory this process may use: the machine's, or its groups' limit where that is lower; 0 if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    for folder in _own_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _words(folder / name)
            if limit and limit[0].isdigit():
                total = min(total, int(limit[0]))
    return int(total)


def _own_groups(controller: str) -> list[Path]:
    """Folders of this process's control groups, from its own up to the root."""
    folders = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in lines:
        _, names, path = line.split(":", 2)
        if not names or controller in names.split(","):
            base = Path("/sys/fs/cgroup") / (controller if names else "")
            here = base / path.lstrip("/")
            folders += [here, *(parent for parent in here.parents if parent.is_relative_to(base))]
    return folders


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def gpus() -> list[str]:
    """NVIDIA GPUs as the driver names them; Apple's as "Apple GPU"; a driver that fails is named too."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return ["Apple GPU"]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, errors="replace", timeout=20, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        return [f"unknown: nvidia-smi fails ({type(error).__name__})"]
    return [line.strip() for line in done.stdout.splitlines() if re.search(r", \d+ MiB", line)]


def _extra(name: str, purpose: str) -> dict[str, Any]:
    missing = [package for package, range_ in requirements(name) if not _installed(package, range_)]
    state = f"missing {', '.join(missing)}" if missing else "installed"
    if missing and name in OWN_ENVIRONMENT and any(Path(f".venv-{name}").glob(f"lib/python*/site-packages/{name}")):
        missing, state = [], f"installed in .venv-{name}"
    return {"extra": name, "purpose": purpose, "missing": missing, "state": state, "command": _command(name)}


def _command(extra: str) -> str:
    python, package = shlex.quote(sys.executable), wanted(OWN_ENVIRONMENT.get(extra, extra))
    if extra in OWN_ENVIRONMENT:
        return f"{python} -m venv .venv-{extra} && .venv-{extra}/bin/pip install {package}"
    return f"{python} -m pip install {package}"


def requirements(extra: str) -> list[tuple[str, str]]:
    """(package, version range) of what an extra brings, read from our own metadata."""
    try:
        lines = importlib.metadata.requires("rewardrate") or []
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return [("rewardrate", "")]
    found = []
    for line in lines:
        parts = re.match(r"([A-Za-z0-9._-]+)(?:\[.*?\])?\s*([^;]*);.*extra == ['\"]([\w-]+)['\"]", line)
        if parts and parts[3] == extra and parts[1] != "rewardrate":
            found.append((parts[1], parts[2].strip()))
    return found


def _installed(package: str, wanted: str = "") -> bool:
    """Whether a package is there in a version that the range allows (numbers are compared, suffixes are not)."""
    try:
        have = _version(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False
    tests = {">=": have.__ge__, "<": have.__lt__, "==": have.__eq__}
    bounds = re.findall(r"(>=|==|<)\s*([\w.]+)", wanted)
    return all(tests[sign](_version(bound)) for sign, bound in bounds)


def _version(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.match(r"[\d.]*", text)[0].split(".") if part]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
