"""System calls that Python does not offer."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import socket
import struct
import threading
from collections.abc import Sequence

PDEATHSIG, DUMPABLE, SECCOMP, CAPBSET_DROP, SUBREAPER, NO_NEW_PRIVS = 1, 4, 22, 24, 36, 38
NEW_NS, NEW_CGROUP, NEW_UTS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = (
    0x20000,
    0x2000000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
SLAVE = 1 << 19
MOUNT_SETATTR, OPENAT2, LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 442, 437, 444, 445, 446  # on every machine
CAPSET = {"x86_64": 126, "aarch64": 91}
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

PAGE, LAST_BIT = resource.getpagesize(), bytes(byte & 1 for byte in range(256))
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_own_limits = threading.Lock()


def syscall(number: int, *arguments: object) -> int:
    """A raw system call; OSError on failure."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise _error(f"system call {number}")
    return result


def prctl(option: int, *arguments: int) -> None:
    """prctl(2)."""
    words = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(ctypes.c_int(option), *words) != 0:
        raise _error(f"prctl {option}")


def unshare(flags: int) -> None:
    """unshare(2)."""
    if _libc.unshare(ctypes.c_int(flags)) != 0:
        raise _error("unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """mount(2)."""
    if (
        _libc.mount(
            source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
        )
        != 0
    ):
        raise _error(f"mount {source} on {target}")


def read_only(path: str) -> None:
    """Make a mount and all below it read-only, without devices or setuid."""
    attributes = ctypes.create_string_buffer(struct.pack("QQQQ", READ_ONLY | NO_SUID | NO_DEV, 0, 0, 0), 32)
    syscall(MOUNT_SETATTR, -100, ctypes.c_char_p(path.encode()), 0x8000, attributes, 32)


def enter_root(path: str, old: str) -> None:
    """Make `path` the root of the mount namespace and let go of the old one, held at `path`/`old` meanwhile."""
    os.chdir(path)
    syscall(PIVOT_ROOT[os.uname().machine], ctypes.c_char_p(b"."), ctypes.c_char_p(old.encode()))
    os.chdir("/")
    if _libc.umount2(f"/{old}".encode(), 2) != 0:
        raise _error("umount")
    os.rmdir(f"/{old}")


def drop_capabilities() -> None:
    """Give up every capability, for this process and what it becomes."""
    drop_bounding_set()
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0), 8)
    syscall(CAPSET[os.uname().machine], header, ctypes.create_string_buffer(24))


def drop_bounding_set() -> None:
    """No exec can bring a capability back."""
    for capability in range(64):
        try:
            prctl(CAPBSET_DROP, capability)
        except OSError:
            return


def load_filter(program: bytes) -> None:
    """Install a seccomp filter: a packed array of BPF instructions."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    holder = ctypes.create_string_buffer(header, len(header))
    if (
        _libc.prctl(
            ctypes.c_int(SECCOMP), ctypes.c_ulong(2), ctypes.byref(holder), ctypes.c_ulong(0), ctypes.c_ulong(0)
        )
        != 0
    ):
        raise _error("seccomp")


def open_beneath(folder: int, name: str, flags: int) -> int:
    """openat2(2): `name` inside `folder`, no symlink anywhere, no other mount, no way out."""
    how = ctypes.create_string_buffer(struct.pack("QQQ", flags | os.O_CLOEXEC, 0, 1 | 2 | 4 | 8), 24)
    return syscall(OPENAT2, folder, ctypes.c_char_p(os.fsencode(name)), how, 24)


def in_memory(file: int) -> list[tuple[int, int]]:
    """Parts (start, end) of an open file that are in memory; none if it is not ours to know."""
    state = os.fstat(file)
    size, pages = state.st_size, -(-state.st_size // PAGE)
    if pages == 0 or os.geteuid() not in (0, state.st_uid):
        return []
    said = ctypes.create_string_buffer(pages)
    readable, private = 1, 2
    words = (ctypes.c_size_t(size), readable, private, ctypes.c_int(file), ctypes.c_long(0))
    where = _libc.mmap(None, *words)
    if where == ctypes.c_void_p(-1).value:
        raise _error("mmap")
    try:
        if _libc.mincore(ctypes.c_void_p(where), ctypes.c_size_t(size), said) != 0:
            raise _error("mincore")
    finally:
        _libc.munmap(ctypes.c_void_p(where), ctypes.c_size_t(size))
    there = said.raw.translate(LAST_BIT)
    return [(part.start() * PAGE, part.end() * PAGE) for part in re.finditer(rb"\x01+", there)]


def send_descriptors(line: socket.socket, word: bytes, descriptors: Sequence[int]) -> None:
    """A word with descriptors over a UNIX socket, also when other processes of this user have many under way.

    The kernel counts those of a user together and refuses when they are more than the sender may have open: a script
    that runs as our user could keep us from sending any. So it is tried again with the most that we may have open.
    """
    try:
        socket.send_fds(line, [word], list(descriptors))
    except OSError as error:
        if error.errno != errno.ETOOMANYREFS:
            raise
        with _own_limits:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            try:
                socket.send_fds(line, [word], list(descriptors))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
