"""Cores that belong to one run at a time, on this machine, whoever asks: locked files, so that processes agree."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rewardrate.errors import InputError

FOLDER = Path(tempfile.gettempdir()) / "rewardrate-cores"
PAUSE_SECONDS = 0.02


def usable() -> list[int]:
    """Numbers of the cores this process may run on."""
    return sorted(os.sched_getaffinity(0))


@contextlib.contextmanager
def owned(count: int, *, patience_seconds: float | None = None) -> Iterator[list[int]]:
    """`count` cores for ourselves alone until the block ends; waits for them, at most so long.

    A lock is held by an open file, so it ends with the process that holds it, however that ends.
    """
    if count > len(usable()):
        rule = f"this process may use {len(usable())} cores"
        raise InputError("limits.cores", count, rule, "ask for fewer, or use a larger machine")
    deadline = None if patience_seconds is None else time.monotonic() + patience_seconds
    while (held := _take(count)) is None:
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError(f"{count} cores were not free within {patience_seconds} s")
        time.sleep(PAUSE_SECONDS)
    try:
        yield sorted(held)
    finally:
        for file in held.values():
            os.close(file)


def _take(count: int) -> dict[int, int] | None:
    """Lock `count` free cores, or none: {core: open lock file}."""
    _folder()
    held: dict[int, int] = {}
    for core in usable():
        file = _lock_file(core)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        held[core] = file
        if len(held) == count:
            return held
    for file in held.values():
        os.close(file)
    return None


def _lock_file(core: int) -> int:
    """The open lock file of a core. Reading is enough to lock, so files of other users serve as well."""
    path, flags = FOLDER / f"core-{core}.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644)


def _folder() -> None:
    """The folder of the locks, which every user of the machine shares."""
    with contextlib.suppress(FileExistsError):
        FOLDER.mkdir(mode=0o1777)
        FOLDER.chmod(0o1777)
