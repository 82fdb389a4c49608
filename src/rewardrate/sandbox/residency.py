"""Keeps what honest scripts read in memory: the packages of their Python, and their data.

A group drops the pages that its script was the first to read, or which of them are in memory would be a message to the
next script. So what every script reads must have been read by somebody else before: by us. Where there is no group,
what we have read cannot carry a message at all.

The kernel also keeps two flags of every page in memory, "active" and "referenced", which a script can look at in
/proc/self/numa_maps and smaps and set by reading. Both are set of everything that is in memory before, and the box's
/proc is read-only, because writing to clear_refs would clear one of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rewardrate.sandbox import cores
from rewardrate.sandbox.box import kernel
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.job_template import python_mounts

SHARE = 4  # at most the fourth part of the memory that is free
KEEP_SECONDS = 3600.0  # then it is looked at again: the kernel may have needed the memory
STEP = 128 * 1024  # the kernel reads no more ahead at once where nothing else is set
ROUNDS = 3  # of looking at a page: referenced, active, and referenced again
FILES_AT_ONCE = 200  # between two rounds more pages than the kernel collects before it sets a flag
Parts = list[tuple[int, int]]  # start and end, in bytes
SMALL_BYTES = 16 << 20  # flags of so much data are set before every run: that takes some milliseconds
_lock, _done = threading.Lock(), dict[str, float]()
_size = dict[str, int]()
"Bytes of a job's data, as of the hour."


def preload(job: Job) -> None:
    """Have the job's packages and data read into memory, if we have not done so within the hour.

    Packages are many files, so that processes of one user tell each other by a mark that it is done.
    """
    data = [os.path.realpath(path) for path in job.data.values()]
    with _lock:
        left = _free_bytes() // SHARE
        for place in [*data, *packages(job)]:
            if _is_due(place) and (place in data or not _marked(place)):
                left -= read_ahead(place, left, wait=place in data)
        for place in data:
            if due := _is_due(f"{place} flags"):
                _size[place] = sum(size for size, _ in _files(place))
            if due or _size[place] <= SMALL_BYTES:  # the kernel takes flags away as time goes by
                set_flags(place)


def preload_flags(job: Job) -> None:
    """Set the flags of all else that a box shows, if we have not done so within the hour: about ten seconds.

    A pool does this before its first job. A script that is run alone has nobody after it to leave a message for.
    """
    with _lock:
        for place in shown(job):
            if _is_due(f"{place} flags") and not _marked(f"{place} flags"):
                set_flags(place)


def _is_due(what: str) -> bool:
    """Whether this process has not done it within the hour; if not, it does now."""
    now = time.monotonic()
    if now < _done.get(what, float("-inf")) + KEEP_SECONDS:
        return False
    _done[what] = now
    return True


def packages(job: Job) -> list[str]:
    """Folders of the packages that the job's interpreter has."""
    python = job.python or sys.executable
    prefixes = dict.fromkeys((Path(python).resolve().parent.parent, Path(os.path.abspath(python)).parent.parent))
    return [str(path) for prefix in prefixes for path in sorted(prefix.glob("lib/python3*"))]


def shown(job: Job) -> list[str]:
    """Everything else of the machine's own that a box shows: the system's libraries and the interpreter's folders."""
    return [os.path.realpath(source) for source, _ in python_mounts(job.python or sys.executable)]


def set_flags(place: str) -> None:
    """Set both flags of every page that is in memory, of the files at or below a place; reads nothing from the disk.

    Of a file that is neither ours nor ours to write the kernel says nothing, so it is left out.
    """
    files = _files(place)
    while some := list(itertools.islice(files, FILES_AT_ONCE)):
        found = {path: parts for _, path in some if (parts := _look(path, None))}
        for _ in range(ROUNDS):
            for path, parts in found.items():
                _look(path, parts)


def _look(path: str, parts: Parts | None, buffer: memoryview = memoryview(bytearray(STEP))) -> Parts:  # noqa: B008
    """Read parts of a file; without any, say which are in memory.

    Each time it is opened anew: the kernel does not count the page that was read last through the same descriptor.
    """
    with contextlib.suppress(OSError, ValueError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if parts is None:
                return kernel.in_memory(file)
            for start, end in parts:
                for at in range(start, end, STEP):
                    os.preadv(file, [buffer[: end - at]], at)
        finally:
            os.close(file)
    return []


def read_ahead(place: str, most_bytes: int, *, wait: bool = False) -> int:
    """Ask the kernel to read the files at or below a place; how many bytes that are.

    It reads in the background and leaves out what it has no memory for at the moment; `wait` reads them in full.
    Where not all fit: shared libraries first, for every import of a package reads them, and small files before large.
    """
    asked, buffer = 0, bytearray(STEP)
    for size, path in sorted(_files(place), key=lambda file: (".so" not in os.path.basename(file[1]), *file)):
        if asked + size > most_bytes:
            continue
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                for start in range(0, size, STEP):
                    os.posix_fadvise(file, start, STEP, os.POSIX_FADV_WILLNEED)
                asked += size
                while wait and os.readv(file, [buffer]):
                    pass
            finally:
                os.close(file)
    return asked


def _files(place: str) -> Iterator[tuple[int, str]]:
    """(size, path) of every plain file at or below a place."""
    if os.path.isfile(place):
        yield os.path.getsize(place), place
        return
    waiting = [place]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_size, entry.path


def _marked(place: str) -> bool:
    """Whether another process did this within the hour; if not, say that we do now."""
    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    mark = cores.FOLDER / f"resident-{os.getuid()}-{name}"
    with contextlib.suppress(OSError):
        if 0 <= time.time() - mark.stat().st_mtime < KEEP_SECONDS:
            return True
    with contextlib.suppress(OSError):
        cores.folder()
        mark.touch(mode=0o644)
    return False


def _free_bytes() -> int:
    """Memory that is available without swapping."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0
