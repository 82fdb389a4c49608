"""How well this machine can isolate a script: five levels, the strongest that works found by trying."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Level:
    """One way of isolating a script: what it guarantees, what it does not, and how to get the next better one."""

    name: str
    guarantees: str
    lacks: str
    remedy: str


LEVELS: tuple[Level, ...] = (
    Level(
        "namespaces+cgroup",
        "no view of answers, keys, network or other runs; exact memory and process limits",
        "kernel exploits, covert channels",
        "",
    ),
    Level(
        "namespaces",
        "no view of answers, keys, network or other runs; memory watched every 0.1 s",
        "an exact memory limit",
        "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes",
    ),
    Level(
        "uid+landlock+seccomp",
        "answers, keys and other processes out of reach; network closed",
        "hiding the list of processes",
        "allow namespaces; in Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined",
    ),
    Level(
        "landlock+seccomp",
        "files, keys and network out of reach",
        "hiding the list of processes, and protection of the user's processes from signals before Linux 6.12",
        "allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
    ),
    Level(
        "limits",
        "accidents only: endless loops, leaks, fork storms",
        "any protection against a hostile script",
        "use Linux 5.13 or newer with Landlock and seccomp",
    ),
)


@dataclass(frozen=True)
class Isolation:
    """The strongest level that works here, and what each trial gave."""

    level: Level
    trials: Mapping[str, int]


def try_isolation(timeout_seconds: float = 20.0) -> Isolation:
    """Try the kernel's means in a fresh process and name the level they add up to."""
    if not sys.platform.startswith("linux"):
        return Isolation(LEVELS[-1], {})
    script = Path(__file__).with_name("trials.py")
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(script)], capture_output=True, text=True, timeout=timeout_seconds, check=True
        )
        trials = {str(name): int(value) for name, value in json.loads(done.stdout).items()}
    except (subprocess.SubprocessError, OSError, ValueError):
        trials = {}
    return Isolation(choose_level(trials, root=os.geteuid() == 0), trials)


def choose_level(trials: Mapping[str, int], *, root: bool) -> Level:
    """The level that a set of successful trials allows."""
    named = {level.name: level for level in LEVELS}
    if trials.get("namespaces_as_user") or (root and trials.get("namespaces_as_root")):
        return named["namespaces+cgroup" if trials.get("cgroup") else "namespaces"]
    if trials.get("landlock") and trials.get("seccomp"):
        return named["uid+landlock+seccomp" if root and trials.get("slot_uid") else "landlock+seccomp"]
    return named["limits"]
