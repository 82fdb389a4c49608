"""Files out of the working directory once everything in the box is dead: plain ones only, never followed."""

from __future__ import annotations

import errno
import os
import stat

from rewardrate.sandbox.box import kernel

REASONS = {errno.ENOENT: "missing", errno.ELOOP: "symlink", errno.EXDEV: "outside", errno.ENOTDIR: "missing"}


def collect(folder: int, names: list[str], most_bytes: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """Contents of the named files, and why the others were refused."""
    files: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            found = kernel.open_beneath(folder, name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            refused[name] = REASONS.get(error.errno or 0, f"refused ({errno.errorcode.get(error.errno or 0, '?')})")
            continue
        try:
            reason = _refusal(os.fstat(found), most_bytes)
            if reason:
                refused[name] = reason
            else:
                files[name] = _read(found, most_bytes)
        finally:
            os.close(found)
    return files, refused


def _refusal(state: os.stat_result, most_bytes: int) -> str:
    if not stat.S_ISREG(state.st_mode):
        return "not a plain file"
    if state.st_nlink != 1:
        return "hardlink"
    if state.st_size > most_bytes:
        return "too big"
    return ""


def _read(file: int, most_bytes: int) -> bytes:
    parts, left = [], most_bytes
    while left > 0:
        part = os.read(file, min(1 << 20, left))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
