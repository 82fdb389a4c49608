"""Cores that belong to one run at a time, on this machine, whoever asks: locked files, so that processes agree."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from rewardrate.errors import InputError
from rewardrate.sandbox.stop import Stop, Stopped

log = logging.getLogger(__name__)

# Programs with another TMPDIR have other locks: they do not see each other's runs.
FOLDER = Path(tempfile.gettempdir()) / "rewardrate-cores"
PAUSE_SECONDS = 0.02
NOTICE_SECONDS = 30.0  # of waiting, until a warning says which process has the cores


class Inside:
    """How many threads are inside a block."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.count -= 1


_owning, _waiting = Inside(), Inside()


def usable() -> list[int]:
    """Numbers of the cores this process may run on."""
    return sorted(os.sched_getaffinity(0))


def here() -> tuple[int, int]:
    """How many scripts of this process have their cores, and how many wait for them."""
    return _owning.count, _waiting.count


def check(count: int) -> None:
    """Refuse more cores than this process may use: it would wait for ever."""
    if count > len(usable()):
        most = len(usable())
        remedy = f"set at most {most} (environment.cores of a recipe, --set cores={most}), or use a larger machine"
        raise InputError("cores", count, f"this process may use {most} cores", remedy)


@contextlib.contextmanager
def owned(count: int, *, patience_seconds: float | None = None, stop: Stop | None = None) -> Iterator[list[int]]:
    """`count` cores for ourselves alone until the block ends; waits for them, at most so long, or until stopped.

    A lock is held by an open file, so it ends with the process that holds it, however that ends. Whoever has
    the gates of all its usable cores collects those that become free and keeps them, so that one who needs many is not
    passed by those who need one. Gates are taken in ascending order, so nobody waits in a circle.
    """
    check(count)
    deadline = None if patience_seconds is None else time.monotonic() + patience_seconds
    notice = time.monotonic() + NOTICE_SECONDS
    held: dict[str, int] = {}
    try:
        with _waiting:
            while not _take(count, held):
                if stop is not None and stop.is_set():
                    raise Stopped
                if time.monotonic() > notice:
                    notice = float("inf")
                    _say_who_has_them(count)
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"{count} cores were not free within {patience_seconds} s")
                time.sleep(PAUSE_SECONDS)
        for name in [name for name in held if name.startswith("gate")]:
            os.close(held.pop(name))
        with _owning:
            yield sorted(int(name.removeprefix("core-")) for name in held)
    finally:
        for file in held.values():
            os.close(file)


@contextlib.contextmanager
def pinned(numbers: Collection[int]) -> Iterator[None]:
    """Keep the calling thread, and those of libraries that compute for it, on these cores until the block ends.

    A library's threads (OpenMP, BLAS) stay where the thread that made them was, so moving that one is not enough. Other
    threads of Python keep their cores.
    """
    others = {thread.native_id for thread in threading.enumerate()} - {threading.get_native_id()}
    tasks = [int(path.name) for path in Path("/proc/self/task").iterdir()]
    before: dict[int, set[int]] = {}
    try:
        for task in (task for task in tasks if task not in others):
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                before[task] = os.sched_getaffinity(task)
                os.sched_setaffinity(task, numbers)
        yield
    finally:
        for task, cores in before.items():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(task, cores)


def _take(count: int, held: dict[str, int]) -> bool:
    """Lock what is missing of the gates and then of the cores; whether there are enough. {gate or core: open file}."""
    folder()
    for core in usable():
        if f"gate-{core}" not in held and not _lock(f"gate-{core}", held):
            return False
    for core in usable():
        if sum(name.startswith("core") for name in held) < count and f"core-{core}" not in held:
            _lock(f"core-{core}", held)
    return sum(name.startswith("core") for name in held) >= count


def _lock(name: str, held: dict[str, int]) -> bool:
    """Open and lock the file of a gate or a core; false while somebody else has it."""
    try:
        file = _lock_file(FOLDER / f"{name}.lock")
    except PermissionError:  # another user is making it this moment
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    held[name] = file
    return True


def _lock_file(path: Path) -> int:
    """The open lock file. Reading is enough to lock, so files of other users serve as well."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        file = os.open(path, flags | os.O_CREAT, 0o644)
        with contextlib.suppress(PermissionError):  # another user was faster
            os.fchmod(file, 0o644)  # whatever our umask, the next user must be able to read it
        return file


def folder() -> None:
    """The folder of the locks, which every user of the machine shares."""
    with contextlib.suppress(FileExistsError):
        FOLDER.mkdir(mode=0o1777)
        FOLDER.chmod(0o1777)


def _say_who_has_them(count: int) -> None:
    """One line for a user who would otherwise look at a run that stands still. Our own boxes are no news."""
    others = sorted(_holders() - {os.getpid()})
    if others:
        names = ", ".join(str(number) if number > 0 else "of another container" for number in others)
        words = "waiting for %d core(s): every script has its cores to itself, and others own them (process %s)"
        log.warning(words, count, names)


def _holders() -> set[int]:
    """Processes that hold a core, as the kernel lists them; none where it does not."""
    try:
        files = {path.stat().st_ino for path in FOLDER.glob("core-*.lock")}
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return set()
    held = [row for row in rows if "FLOCK" in row and "->" not in row and len(row) >= 6]
    return {int(row[4]) for row in held if int(row[5].rpartition(":")[2]) in files}
