"""What a script uses that neither a process's resident memory nor its folder shows: where no group counts it, we do."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping

# A socket keeps what was sent and not yet received: 208 KiB by default (larger buffers are refused by the filter, and
# TCP's are made as small). A few belong to honest scripts.
SOCKET_BYTES, FREE_SOCKETS = 212_992, 32
HIDDEN, HIDDEN_BYTES = -1, 1 << 60
# A pipe keeps 64 KiB (the filter refuses larger ones), until the pipes of a user together keep 64 MiB; every further
# one two pages.
PIPE_BYTES, LARGE_PIPES, SMALL_PIPE_BYTES = 65_536, 1024, 8_192
# Record locks: more than the most are not counted one by one, because the kernel lists them ever more slowly.
# More descriptors than these are not looked at one by one, or memory could grow for seconds meanwhile: each counts as
# half a pipe.
MOST_DESCRIPTORS = 20_000
LOCK_BYTES, MOST_LOCKS, MOST_LINES = 256, 50_000, 200_000
INODE_BYTES = 1024  # of a file in memory, beside its content; a name takes some too


def kernel_bytes(processes: Iterable[int], *, own_network: bool) -> int:
    """Memory of these processes that is not resident: page tables and swap as they are, sockets and pipes at the most.

    `own_network`: every socket of the network namespace belongs to them, also one that no process holds open any more.
    """
    processes = list(processes)
    sockets, pipes, more = _ends(processes)
    number = sockets_in_use() if own_network else sockets
    kept = max(0, number - FREE_SOCKETS) * SOCKET_BYTES
    kept += min(pipes, LARGE_PIPES) * PIPE_BYTES + max(0, pipes - LARGE_PIPES) * SMALL_PIPE_BYTES
    return kept + more * SMALL_PIPE_BYTES // 2 + sum(map(_not_resident, processes))


def unlinked_bytes(processes: Iterable[int], *, mapped: bool = True) -> dict[int, int]:
    """Device -> bytes of files without a name that these processes hold open or (for root, if asked) mapped.

    Who runs a program that cannot be read hides what it holds from an init of the same user: the key -1 then says so.
    """
    found: dict[tuple[int, int], int] = {}
    total: dict[int, int] = {}
    for process in processes:
        for folder in (b"fd", b"map_files") if mapped else (b"fd",):  # the second is for root alone
            try:
                names = os.listdir(b"/proc/%d/%s" % (process, folder))
            except PermissionError:
                if folder == b"fd" and _not_resident(process):  # it lives: one that is ending cannot be seen either
                    total[HIDDEN] = HIDDEN_BYTES
                continue
            except OSError:
                continue
            for name in names:
                with contextlib.suppress(OSError):
                    state = os.stat(b"/proc/%d/%s/%s" % (process, folder, name))
                    if stat.S_ISREG(state.st_mode) and state.st_nlink == 0:
                        found[state.st_dev, state.st_ino] = state.st_blocks * 512
    for (device, _), size in found.items():
        total[device] = total.get(device, 0) + size
    return total


def on_device(found: Mapping[int, int], place: str) -> int:
    """Of these, the bytes on the file system of a place; too much where something is hidden."""
    try:
        return found.get(os.stat(place).st_dev, 0) + found.get(HIDDEN, 0)
    except OSError:
        return found.get(HIDDEN, 0)


def lock_bytes(processes: Iterable[int]) -> int:
    """Kernel memory of the record locks that these processes hold; too much where there are too many to be counted."""
    own, count = {b"%d" % process for process in processes}, 0
    with contextlib.suppress(OSError), open("/proc/locks", "rb") as file:
        for number, line in enumerate(file):
            words = line.split()
            count += len(words) > 4 and words[4] in own
            if count > MOST_LOCKS:
                return HIDDEN_BYTES
            if number > MOST_LINES:  # those of others
                break
    return count * LOCK_BYTES


def in_memory_bytes(path: str) -> int:
    """What a file system in memory takes: blocks and inodes."""
    system = os.statvfs(path)
    return (system.f_blocks - system.f_bfree) * system.f_frsize + (system.f_files - system.f_ffree) * INODE_BYTES


def socket_bytes() -> int:
    """The most that the buffers of this network namespace's sockets can keep."""
    return max(0, sockets_in_use() - FREE_SOCKETS) * SOCKET_BYTES


def sockets_in_use() -> int:
    """Sockets of this network namespace, of every kind."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/net/sockstat", "rb") as file:
        return int(file.readline().split()[2])
    return 0


def _ends(processes: list[int]) -> tuple[int, int, int]:
    """How many sockets and pipes these processes hold open, and how many descriptors more that were not looked at."""
    found: set[bytes] = set()
    left, more = MOST_DESCRIPTORS, 0
    for process in processes:
        with contextlib.suppress(OSError):
            names = os.listdir(b"/proc/%d/fd" % process)
            for name in names[:left]:
                with contextlib.suppress(OSError):
                    found.add(os.readlink(b"/proc/%d/fd/%s" % (process, name)))
            more += len(names[left:])
            left -= len(names[:left])
    sockets, pipes = (sum(link.startswith(kind) for link in found) for kind in (b"socket:", b"pipe:"))
    return sockets, pipes, more


def _not_resident(process: int) -> int:
    with contextlib.suppress(OSError), open(b"/proc/%d/status" % process, "rb") as file:
        return swapped_and_tables(file.read())
    return 0


def swapped_and_tables(status: bytes) -> int:
    """Bytes of page tables and of memory in swap, as /proc/PID/status says them."""
    words = [line.split() for line in status.splitlines() if line.startswith((b"VmPTE:", b"VmSwap:"))]
    return 1024 * sum(int(line[1]) for line in words if len(line) > 1 and line[1].isdigit())
