"""What the kernel lets us do, found by trying each thing in a child process of its own.

Run as a script in a fresh interpreter (it forks, so no threads may exist); prints one JSON object. Standard library
only: it must work where nothing is installed.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

NEW_NS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
ISOLATION = NEW_NS | NEW_IPC | NEW_PID | NEW_NET
PRIVATE, RECURSIVE = 1 << 18, 16384
SLOT_UID = 61000
VERSION_1 = (("memory", "memory.limit_in_bytes"), ("pids", "pids.max"))
VERSION_2 = ("memory.max", "pids.max")
OWN = "/rewardrate-own"  # where `cgroups` puts our own processes in a delegated group
LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1  # the number is the same on every architecture
SECCOMP = {"x86_64": 317, "aarch64": 277}
SECCOMP_GET_ACTION_AVAIL, SECCOMP_RET_KILL_PROCESS = 2, 0x80000000


def namespaces_as_root() -> int:
    """Mount, pid, ipc and network namespaces without a user namespace, with a /proc and a file system of their own."""
    return int(_libc().unshare(ISOLATION) == 0 and _own_world())


def namespaces_as_user() -> int:
    """The same inside a user namespace of our own, with its uid mapped."""
    uid = os.getuid()
    if _libc().unshare(ISOLATION | NEW_USER) != 0:
        return 0
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    return int(_own_world())


def _own_world() -> bool:
    """Process 1 of the new namespace mounts what a box needs; a masked /proc (containers) makes that fail."""
    first = os.fork()
    if first == 0:
        libc = _libc()
        private = libc.mount(b"none", b"/", None, ctypes.c_ulong(PRIVATE | RECURSIVE), None) == 0
        files = libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(0), b"size=64k") == 0
        proc = libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(0), None) == 0
        os._exit(0 if private and files and proc else 1)
    return os.waitpid(first, 0)[1] == 0


def slot_uid() -> int:
    """Whether we may become another user, so that scripts run as a user of their own."""
    os.setgroups([])
    os.setresgid(*[SLOT_UID] * 3)
    os.setresuid(*[SLOT_UID] * 3)
    return 1


def landlock() -> int:
    """The Landlock ABI version, 0 where there is none."""
    return max(0, int(_libc().syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)))


def seccomp() -> int:
    """Whether a filter may kill a process."""
    number = SECCOMP.get(os.uname().machine)
    if number is None:
        return 0
    action = ctypes.c_uint32(SECCOMP_RET_KILL_PROCESS)
    return int(_libc().syscall(number, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


def cgroup() -> int:
    """Whether groups with memory and process limits can be made (and removed): version 1, or our own of version 2."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = {name: path for _, names, path in groups for name in names.split(",")}
    one = all(_limited(f"/sys/fs/cgroup/{name}{own[name]}", f) for name, f in VERSION_1) if "memory" in own else False
    if one or "" not in own:
        return int(one)
    two = f"/sys/fs/cgroup{own['']}".removesuffix(OWN)
    return int(all(_limited(two, f) for f in VERSION_2) or _delegated(two))


def _delegated(place: str) -> bool:
    """Whether we may divide this version 2 group: its limits can be handed down once its processes have moved."""
    try:
        offered = set((Path(place) / "cgroup.controllers").read_text().split())
        marks = {os.getxattr(place, name) for name in os.listxattr(place) if name.endswith(".delegate")}
    except OSError:
        return False
    handed_down = b"1" in marks or Path(place) == Path("/sys/fs/cgroup")
    return handed_down and {"memory", "pids"} <= offered and os.access(Path(place) / "cgroup.subtree_control", os.W_OK)


def _limited(place: str, limit: str) -> bool:
    """Whether a group made at this place has this limit."""
    trial = Path(place) / f"rewardrate-trial-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    found = (trial / limit).exists()
    trial.rmdir()
    return found


TRIALS: dict[str, Callable[[], int]] = {
    "namespaces_as_root": namespaces_as_root,
    "namespaces_as_user": namespaces_as_user,
    "landlock": landlock,
    "seccomp": seccomp,
    "cgroup": cgroup,
    "slot_uid": slot_uid,
}


def attempt(trial: Callable[[], int]) -> int:
    """The result of a trial made in a forked child; 0 if it died or raised."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(trial()).encode())
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as result:
        text = result.read()
    os.waitpid(child, 0)
    return int(text) if text.isdigit() else 0


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    json.dump({name: attempt(trial) for name, trial in TRIALS.items()}, sys.stdout)
