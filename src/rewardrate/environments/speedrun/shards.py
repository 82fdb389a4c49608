"""Token shards in the speedrun's format: 256 int32 of header (magic, version, count), then uint16 tokens."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rewardrate.errors import InputError

MAGIC, VERSION, HEADER_BYTES = 20240520, 1, 1024
Tokens = NDArray[np.uint16]


def write(path: Path, tokens: Tokens) -> None:
    """One shard."""
    header = np.zeros(256, dtype="<i4")
    header[:3] = MAGIC, VERSION, len(tokens)
    path.write_bytes(header.tobytes() + np.asarray(tokens, dtype="<u2").tobytes())


def read(path: Path) -> Tokens:
    """The tokens of a shard. InputError when it is not one, or not all of it is there."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError("shard", str(path), f"it cannot be read: {error}") from None
    header = np.frombuffer(content[:HEADER_BYTES], dtype="<i4") if len(content) >= HEADER_BYTES else np.zeros(3)
    if tuple(header[:2]) != (MAGIC, VERSION):
        raise InputError("shard", str(path), f"its header must begin with {MAGIC} and {VERSION}")
    if len(content) != HEADER_BYTES + 2 * int(header[2]):
        rule = f"its header says {int(header[2]):,} tokens, and it holds {(len(content) - HEADER_BYTES) // 2:,}"
        raise InputError("shard", str(path), rule)
    return np.frombuffer(content, dtype="<u2", offset=HEADER_BYTES)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
