"""A task's data on their way to another machine: in small pieces, once, and checked when all of them are there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rewardrate.errors import InputError

PIECE_BYTES = 4 * 2**20  # what travels at once: the engine's store never holds more of a task than this, per node
PREFIX = "rewardrate-data-"


@dataclass(frozen=True)
class Piece:
    """A folder, a link, or some bytes of a file. `path` is empty for the shipped thing itself when it is a file."""

    kind: str
    path: str
    offset: int = 0
    content: bytes = b""


def signature(source: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of change of everything below: cheap, and different as soon as anything was written."""
    return tuple((name, *_stamp(path)) for _, name, path in _walk(source))


def digest(source: Path) -> str:
    """SHA-256 of the whole content: names, kinds and bytes."""
    total = hashlib.sha256()
    for kind, name, path in _walk(source):
        total.update(f"{kind}\0{name}\0".encode("utf-8", "surrogateescape"))
        if kind == "link":
            total.update(os.fsencode(os.readlink(path)))
        elif kind == "file":
            with open(path, "rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def pieces(source: Path) -> Iterator[list[Piece]]:
    """Everything below `source`, in chunks of at most `PIECE_BYTES` of content."""
    chunk: list[Piece] = []
    held = 0
    for piece in _all(source):
        if chunk and held + len(piece.content) > PIECE_BYTES:
            yield chunk
            chunk, held = [], 0
        chunk.append(piece)
        held += len(piece.content)
    if chunk:
        yield chunk


class DataStore:
    """Data that have arrived on this machine, by digest; gone with the process that holds them."""

    def __init__(self) -> None:
        _tidy()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.folder.chmod(0o711)  # scripts run as another user, who must get through but need not look around
        self._end = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def put(self, name: str, chunk: Iterable[Piece]) -> None:
        """Add pieces to the data that will be called `name`."""
        home = self.folder / f"{name}.part"
        for piece in chunk:
            path = home / piece.path if piece.path else home
            if piece.kind == "folder":
                path.mkdir(exist_ok=True)
                path.chmod(0o755)  # whatever our umask, scripts of another user must get through
            elif piece.kind == "link":
                os.symlink(os.fsdecode(piece.content), path)
            else:
                with open(path, "r+b" if piece.offset else "wb") as file:
                    file.seek(piece.offset)
                    file.write(piece.content)
                path.chmod(0o644)

    def complete(self, name: str) -> None:
        """All pieces are there: from now on the data can be used. OSError if they are not what was sent."""
        home = self.folder / f"{name}.part"
        if digest(home) != name:
            shutil.rmtree(home, ignore_errors=True) if home.is_dir() else home.unlink(missing_ok=True)
            raise OSError(f"data {name[:12]} arrived damaged, or were changed while they were sent")
        home.rename(self.folder / name)

    def path(self, name: str) -> Path:
        """Where the data called `name` are."""
        return self.folder / name

    def close(self) -> None:
        """Remove everything."""
        self._end()


def _tidy() -> None:
    """Remove what processes of ours that were killed left behind."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        holder = path.name.removeprefix(PREFIX).split("-")[0]
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not Path("/proc", holder).exists():
                shutil.rmtree(path, ignore_errors=True)


def _walk(source: Path) -> Iterator[tuple[str, str, Path]]:
    """(kind, name below source, path) in a fixed order; anything but folders, files and links is refused."""
    real = Path(os.path.realpath(source))
    if not real.exists():
        raise InputError("data", str(source), "there is no such file or folder")
    todo = [("", real)]
    while todo:
        name, path = todo.pop()
        if path.is_symlink():
            yield "link", name, path
        elif path.is_dir():
            yield "folder", name, path
            below = sorted(os.listdir(path), reverse=True)
            todo += [(f"{name}/{leaf}" if name else leaf, path / leaf) for leaf in below]
        elif path.is_file():
            yield "file", name, path
        else:
            raise InputError("data", str(path), "only files, folders and links can be sent to another machine")


def _all(source: Path) -> Iterator[Piece]:
    for kind, name, path in _walk(source):
        if kind == "link":
            yield Piece(kind, name, content=os.fsencode(os.readlink(path)))
        elif kind == "folder":
            yield Piece(kind, name)
        else:
            yield from _contents(name, path)


def _contents(name: str, path: Path) -> Iterator[Piece]:
    with open(path, "rb") as file:
        offset, content = 0, file.read(PIECE_BYTES)
        yield Piece("file", name, 0, content)
        while len(content) == PIECE_BYTES:
            offset += len(content)
            content = file.read(PIECE_BYTES)
            yield Piece("file", name, offset, content)


def _stamp(path: Path) -> tuple[int, int]:
    state = path.lstat()
    return state.st_size, state.st_mtime_ns
