"""Where prepared data are kept, and how they get there: by one process at a time, whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def default_folder(kind: str) -> Path:
    """Where prepared data of a kind are kept unless said otherwise: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "rewardrate" / kind


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, made if it is missing; another process that asks for it waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """A fresh folder to be filled; it is put where `place` is when the block ends. An error changes nothing."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
    try:
        yield fresh
        with tempfile.TemporaryDirectory(prefix=".old-", dir=place.parent, ignore_cleanup_errors=True) as old:
            if place.exists():
                place.rename(Path(old) / place.name)
            fresh.rename(place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
