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
LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1  # the number is the same on every architecture
SECCOMP = {"x86_64": 317, "aarch64": 277}
SECCOMP_GET_ACTION_AVAIL, SECCOMP_RET_KILL_PROCESS = 2, 0x80000000


def namespaces_as_root() -> int:
    """Mount, pid, ipc and network namespaces without a user namespace."""
    return int(_libc().unshare(ISOLATION) == 0)


def namespaces_as_user() -> int:
    """The same inside a user namespace of our own, with its uid mapped."""
    uid = os.getuid()
    if _libc().unshare(ISOLATION | NEW_USER) != 0:
        return 0
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
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
    """Whether a memory group can be made (and removed again): version 1, or our own delegated version 2 group."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    places = [Path("/sys/fs/cgroup/memory" + path) for _, names, path in groups if "memory" in names.split(",")]
    places += [Path("/sys/fs/cgroup" + path) for number, names, path in groups if number == "0" and not names]
    for place in places:
        ours = place / f"rewardrate-trial-{os.getpid()}"
        try:
            ours.mkdir()
        except OSError:
            continue
        limits = (ours / "memory.max").exists() or (ours / "memory.limit_in_bytes").exists()
        ours.rmdir()
        if limits:
            return 1
    return 0


TRIALS: dict[str, Callable[[], int]] = {
    "namespaces_as_root": namespaces_as_root,
    "namespaces_as_user": namespaces_as_user,
    "landlock": landlock,
    "seccomp": seccomp,
    "cgroup": cgroup,
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
