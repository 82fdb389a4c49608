"""Processes of the box: what they use, and how they end."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

PAGE = resource.getpagesize()


def descendants(root: int) -> list[int]:
    """All processes below `root`, as /proc shows them now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # bytes: a process may call itself anything
                    text = file.read()
                parent = int(text[text.rindex(b")") + 2 :].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def visible(processes: list[int]) -> list[int]:
    """The numbers under which /proc shows what these processes use.

    Of one whose main thread has ended while others work on, that is a number of those: its own shows nothing.
    """
    found = []
    for process in processes:
        threads = [process]
        if not _resident_bytes(process):
            with contextlib.suppress(OSError):
                threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
        found.append(next(filter(_resident_bytes, threads), process))
    return found


def memory_bytes() -> int:
    """Resident memory of everything below this process, what forks share counted for each."""
    return sum(map(_resident_bytes, visible(descendants(os.getpid()))))


def shared_memory_bytes() -> int:
    """The same with pages that several processes share counted once: slower, so asked only when it matters.

    A process that keeps us from looking (it is not dumpable, or runs a program that cannot be read) shares nothing.
    """
    total = 0
    for process in visible(descendants(os.getpid())):
        try:
            with open(f"/proc/{process}/smaps_rollup", "rb") as file:
                total += 1024 * next(int(line.split()[1]) for line in file if line.startswith(b"Pss:"))
        except PermissionError:
            total += _resident_bytes(process)
        except (OSError, ValueError, IndexError, StopIteration):
            pass
    return total


def _resident_bytes(process: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE
    return 0


def kill_all(config: dict[str, Any]) -> None:
    """SIGKILL to every process of the box, whatever session, parent or state it has."""
    if os.getpid() == 1:
        _kill(-1)  # the kernel does it in one go: no process forks meanwhile
    else:
        below = descendants(os.getpid())
        for process in below:  # first stop them from multiplying
            with contextlib.suppress(OSError):
                resource.prlimit(process, resource.RLIMIT_NPROC, (0, 0))
        for process in below:
            _kill(process)
        if config["can"].kills_slot_user:
            _kill_user(config["slot_uid"])
    for process in descendants(os.getpid()):  # they run no line of their own any more
        raise_priority(process)


def _kill_user(user: int) -> None:
    """Every process of a user in one go, from a process that becomes this user. It may be killed itself meanwhile."""
    try:
        helper = os.fork()
    except OSError:
        return
    if helper == 0:
        try:
            raise_priority(0)
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            _kill(-1)
        finally:
            os._exit(0)
    deadline = time.monotonic() + 1.0
    while not os.waitpid(helper, os.WNOHANG)[0]:  # a process of that user may have stopped it: then it is killed
        if time.monotonic() > deadline:
            _kill(helper)
            os.waitpid(helper, 0)
            return
        time.sleep(0.001)


def raise_priority(process: int) -> None:
    """Let a process run before all others of the machine, where we may; niceness counts inside its session alone.

    Who watches a box and what dies in it must not wait for a core behind everything that a script started.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(process, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def reap_all(
    config: dict[str, Any], patience_seconds: float = 20.0, on_reaped: Callable[[int, int], None] = lambda *_: None
) -> tuple[int, bool]:
    """Kill and reap until there is no child left, which is the proof; how many there were, and whether it is proven.

    Patience is counted from the last one that ended: a hundred processes with large page tables take their time, but
    they do end one after the other, and none can be added. `on_reaped(process, status)` hears of each.
    """
    deadline, count, pause = time.monotonic() + patience_seconds, 0, 0.002
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return count, True
        if process:
            count += 1
            deadline = time.monotonic() + patience_seconds
            on_reaped(process, status)
        elif time.monotonic() > deadline:
            return count, False
        else:
            kill_all(config)
            time.sleep(pause)
            pause = min(0.05, 1.5 * pause)  # who looks for them all the time keeps them from ending


def schedule(process: int | str) -> tuple[float, float]:
    """Seconds that the main thread of a process ran, and that it was ready to run but had no core."""
    try:
        with open(f"/proc/{process}/schedstat", "rb") as file:
            ran, waited = file.read().split()[:2]
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def _kill(process: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, signal.SIGKILL)
