"""The last steps before the script: limits, cores, privileges, filters, exec (or, warm, none)."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from typing import Any, NoReturn

from rewardrate.sandbox.box import kernel, landlock, mounts, seccomp, tree, warm

PROC = ("/proc", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node")  # loky reads them


def start(config: dict[str, Any], out: int, err: int, ready: int) -> NoReturn:
    """Become the script. `ready` closes at exec; when and what it had used, or what went wrong, is written to it."""
    can = config["can"]
    try:
        os.setsid()
        _only_standard_files(out, err, ready)
        os.umask(0o077)
        os.chdir(config["work"])
        _limit(config)
        os.sched_setaffinity(0, config["cores"])
        _most_killable()
        if can.own_mounts:
            mounts.close_proc()
        if config["drop_uid"]:
            kernel.drop_bounding_set()
            os.setgroups([])
            os.setresgid(*[config["slot_uid"]] * 3)
            os.setresuid(*[config["slot_uid"]] * 3)
        _limit_to("NPROC", config["processes"] + (_own_tasks() if can.runs_as_supervisor else 0))
        kernel.prctl(kernel.NO_NEW_PRIVS, 1)
        if can.pid_namespace and not config["drop_uid"]:
            kernel.drop_capabilities()
        if can.landlock:
            writable = [config["work"], *(["/dev/shm"] if can.host_shared_memory else [])]
            readable = [*(target for _, target in config["mounts"]), *PROC]
            landlock.restrict(readable, writable, config["masked_paths"], config["devices"])
        if can.seccomp:
            inside = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
            families = inside if can.own_network else ()
            devices, uncounted = bool(config["devices"]), not config["groups"]
            own_devices = bool(config.get("own_devices"))
            filters = seccomp.program(
                families, count_memory=uncounted, devices=devices, can=can, own_devices=own_devices
            )
            kernel.load_filter(filters)
        if not config["warm"]:
            say_start(ready)
            os.execve(config["arguments"][0], config["arguments"], config["environment"])
    except BaseException as error:
        os.write(ready, f"{type(error).__name__}: {error}"[:500].encode())
        os._exit(127)
    warm.become(config["arguments"], config["work"], config["environment"], lambda: say_start(ready), ready)


def say_start(ready: int) -> None:
    """The clock starts here and not when the init hears of it; what the process used to get ready is not charged."""
    ran, waited = tree.schedule("self")
    os.write(ready, f"{time.monotonic_ns()} {ran} {waited}\n".encode())


def _only_standard_files(out: int, err: int, ready: int) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    for number, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(number, target)
    os.set_inheritable(ready, False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != ready:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _limit(config: dict[str, Any]) -> None:
    # Not 0: where the host sends core dumps to a program, the kernel would still start that, as root and outside.
    _limit_to("CORE", 1)
    _limit_to("FSIZE", config["disk_bytes"])
    _limit_to("NOFILE", 1024)
    _limit_to("MEMLOCK", 0)  # locked pages of a shared file would stay in memory when another box's group is emptied
    _limit_to("MSGQUEUE", 0)
    _limit_to("STACK", 8 << 20)
    _limit_to("SIGPENDING", 1024)
    _limit_to("NICE", 0)
    _limit_to("RTPRIO", 0)
    _limit_to("CPU", int(2 * config["seconds"] * len(config["cores"])) + 5)  # a backstop: the deadline comes first
    if not config["groups"]:
        _limit_to("DATA", config["memory_bytes"])


def _limit_to(name: str, value: int) -> None:
    kind = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _most_killable() -> None:
    """When memory runs out, the script goes first."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _own_tasks() -> int:
    """Threads this user has already: without a namespace the limit counts them too."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            pass
    return count
