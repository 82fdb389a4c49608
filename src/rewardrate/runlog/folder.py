"""The files of a run folder beside the log: the config, the writer's lock, and the checkpoints."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Collection
from pathlib import Path

from rewardrate.errors import InputError

CONFIG = "config.toml"
LOCK = "run.lock"
CHECKPOINTS = "checkpoints"
PARTIAL = ".partial"


class WriterLock:
    """One writer at a time: the kernel holds it for this process and lets go when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # not everywhere; reading does without

        try:
            self._fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError("run", str(folder), f"it cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            rule = "another process is writing this run" + (f" (process {holder})" if holder else "")
            raise InputError("run", str(folder), rule, "wait for it, or stop it and resume") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for lock in list(_held):
        lock.release()  # closes the child's copy alone: a child that outlives us must not hold the run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def write_checkpoint(folder: Path, step: int, write: Callable[[Path], None]) -> str:
    """Let `write` fill a new checkpoint folder and return its name. It is there as a whole or not at all.

    Written under another name, every file synced, then renamed.
    """
    checkpoints = folder / CHECKPOINTS
    name = f"step-{step:06d}"
    partial, final = checkpoints / (name + PARTIAL), checkpoints / name
    _remove(partial)
    partial.mkdir(parents=True)
    write(partial)
    sync_tree(partial)
    _remove(final)  # written before a crash that came before its step was committed
    partial.rename(final)
    sync(checkpoints)
    return name


def remove_checkpoints(folder: Path, keep: Collection[str]) -> None:
    """Remove every checkpoint whose name is not in `keep`, whole or half written."""
    for path in sorted((folder / CHECKPOINTS).glob("step-*")):
        if path.name not in keep:
            _remove(path)


def write_file(path: Path, text: str) -> None:
    """Write a text file that is there as a whole or not at all."""
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(text, encoding="utf-8")
    sync(partial)
    partial.rename(path)
    sync(path.parent)


def sync_tree(folder: Path) -> None:
    """Everything below `folder`, and itself, to the disk."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """One file or folder to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    """Remove a checkpoint; first give it a name that no step can have, so that half of it is never taken for it."""
    if path.is_dir() and not path.is_symlink():
        if not path.name.endswith(PARTIAL):
            doomed = path.with_name(f"{path.name}.old{PARTIAL}")
            shutil.rmtree(doomed, ignore_errors=True)
            path = path.rename(doomed)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
