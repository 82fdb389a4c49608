"""Files of a slot's user in the shared /dev/shm: counted, and removed, or the next script would find them."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess

SHARED_MEMORY = "/dev/shm"
NAME_BYTES = 1024


def owned_by(user: int, folder: str = SHARED_MEMORY) -> list[str]:
    """Paths in a folder that belong to a user."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_uid == user:
                    found.append(entry.path)
            except OSError:
                continue
    return found


def bytes_of(user: int, folder: str = SHARED_MEMORY) -> int:
    """Memory of everything of a user's in a folder in memory, at any depth; a name alone takes some too."""
    total = 0
    try:
        waiting = owned_by(user, folder)
    except OSError:  # there is no such folder here
        return 0
    while waiting:
        path = waiting.pop()
        with contextlib.suppress(OSError):
            state = os.lstat(path)
            total += state.st_blocks * 512 + NAME_BYTES
            if stat.S_ISDIR(state.st_mode):
                waiting += owned_by(user, path)
    return total


def remove(user: int, folder: str = SHARED_MEMORY) -> None:
    """Remove everything of a user's, whatever its modes and however deep; only when none of its processes lives."""
    try:
        paths = owned_by(user, folder)
    except OSError:
        return
    for start in range(0, len(paths), 1000):
        command = ["rm", "-rf", "--one-file-system", "--", *paths[start : start + 1000]]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
