"""How well this machine can isolate a script: five levels, the strongest that works found by trying."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rewardrate.sandbox.box.capabilities import Capabilities


@dataclass(frozen=True)
class Level:
    """One way of isolating a script: what it guarantees, what it does not, and how to get the next better one.

    A new level is an entry of `LEVELS` and a line of `choose_level`: everything else asks `can`.
    """

    name: str
    guarantees: str
    lacks: str
    remedy: str
    can: Capabilities
    known_attacks: frozenset[str] | None = frozenset()
    "Attacks of the suite that are known to get through; None where the suite is not run."


_NAMESPACES = {
    "pid_namespace": True,
    "own_mounts": True,
    "own_network": True,
    "own_ipc": True,
    "slot_user": True,
    "seccomp": True,
}
_UNHIDDEN = frozenset(
    {"list other processes' commands", "list a hidden folder", "leave a message in a counter of the machine"}
)
LEVELS: tuple[Level, ...] = (
    Level(
        "namespaces+cgroup",
        "no view of answers, keys, network or other runs; exact memory and process limits",
        "kernel exploits, covert channels",
        "",
        Capabilities("always", **_NAMESPACES),
    ),
    Level(
        "namespaces",
        "no view of answers, keys, network or other runs; memory watched every 0.1 s",
        "an exact memory limit",
        "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes",
        Capabilities("never", **_NAMESPACES),
    ),
    Level(
        name="uid+landlock+seccomp",
        guarantees="answers, keys and other processes out of reach; network closed",
        lacks="hiding the list of processes",
        remedy="allow namespaces; in Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined",
        can=Capabilities("as-root", slot_user=True, landlock=True, seccomp=True, host_shared_memory=True),
        known_attacks=_UNHIDDEN,
    ),
    Level(
        name="landlock+seccomp",
        guarantees="files, keys and network out of reach",
        lacks="hiding the list of processes, and protection of the user's processes from signals before Linux 6.12",
        remedy="allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
        can=Capabilities("never", landlock=True, seccomp=True),
        known_attacks=_UNHIDDEN | {"honest: multiprocessing"},
    ),
    Level(
        name="limits",
        guarantees="accidents only: endless loops, leaks, fork storms",
        lacks="any protection against a hostile script",
        remedy="use Linux 5.13 or newer with Landlock and seccomp",
        can=Capabilities(),
        known_attacks=None,
    ),
)
NAMED = {level.name: level for level in LEVELS}


@dataclass(frozen=True)
class Isolation:
    """The strongest level that works here, and what each trial gave."""

    level: Level
    trials: Mapping[str, int]


def try_isolation(timeout_seconds: float = 60.0) -> Isolation:
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
    if trials.get("namespaces_as_user") or (root and trials.get("namespaces_as_root")):
        return NAMED["namespaces+cgroup" if trials.get("cgroup") else "namespaces"]
    if trials.get("landlock") and trials.get("seccomp"):
        return NAMED["uid+landlock+seccomp" if root and trials.get("slot_uid") else "landlock+seccomp"]
    return NAMED["limits"]
