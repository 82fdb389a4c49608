"""Landlock: files outside a short list do not exist for the script, where namespaces are not to be had."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterator

from rewardrate.sandbox.box import kernel

EXECUTE, WRITE, READ, READ_FOLDER, TRUNCATE, DEVICE = 1, 2, 4, 8, 1 << 14, 1 << 15
MAKE_CHAR_DEVICE, MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")


def version() -> int:
    """The ABI version the kernel offers, 0 where there is none."""
    try:
        return kernel.syscall(kernel.LANDLOCK_CREATE, 0, 0, 1)
    except OSError:
        return 0


def restrict(
    readable: list[str], writable: list[str], hide: list[str] | None = None, devices: list[str] | None = None
) -> None:
    """Nothing but reading and running what is below `readable`, and anything but devices below `writable`.

    What is below `hide` cannot be read. Rules only ever allow, so the folders above a hidden place may be listed, and
    with them (a rule reaches all the way down) the names in a hidden folder.

    From ABI 4 no TCP, from 6 no signals to processes outside and no abstract sockets.
    """
    abi = version()
    rights = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, TRUNCATE), (5, DEVICE)):
        rights |= right if abi >= since else 0
    attributes = struct.pack("QQQ", rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = kernel.syscall(kernel.LANDLOCK_CREATE, ctypes.create_string_buffer(attributes, 24), size, 0)
    hidden = [os.path.realpath(path) for path in hide or []]
    for path in readable:
        for place, allowed in around(path, hidden):
            _allow(rules, place, allowed & rights)
    for path in writable:
        _allow(rules, path, rights & ~(MAKE_CHAR_DEVICE | MAKE_BLOCK_DEVICE | DEVICE))
    for path in [*DEVICES, *(devices or [])]:
        _allow(rules, path, (READ | WRITE | DEVICE) & rights)
    _allow(rules, "/dev/zero", READ)  # written to and mapped shared, it is memory that no process is seen to have
    kernel.syscall(kernel.LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def around(path: str, hide: list[str]) -> Iterator[tuple[str, int]]:
    """Rules (place, rights) that show everything below `path` but what is below `hide`."""
    real = os.path.realpath(path)
    if any(_inside(real, place) for place in hide):
        return
    if not any(_inside(place, real) for place in hide):
        yield real, EXECUTE | READ | READ_FOLDER
        return
    yield real, READ_FOLDER
    try:
        entries = os.listdir(real)
    except OSError:
        return
    for name in entries:
        if not os.path.islink(f"{real}/{name}"):  # what a link points to has its own rule, or none
            yield from around(f"{real}/{name}", hide)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        rights &= EXECUTE | WRITE | READ | TRUNCATE | DEVICE
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
    kernel.syscall(kernel.LANDLOCK_ADD, rules, 1, rule, 0)
    os.close(place)
