"""Kernel memory and files without a name are counted where nothing else counts them."""

import fcntl
import mmap
import os
import socket
import sys

import pytest

from rewardrate.sandbox import Limits, levels, run
from rewardrate.sandbox.box import uncounted

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
MIB = 2**20


def kernel_bytes():
    return uncounted.kernel_bytes([os.getpid()], own_network=False)


def test_memory_in_swap_is_counted():
    status = b"Name:\tVmSwap:\nVmRSS:\t  8 kB\nVmPTE:\t 4 kB\nVmSwap:\t  100 kB\nThreads:\t1\n"
    assert uncounted.swapped_and_tables(status) == 104 * 1024
    assert uncounted.swapped_and_tables(b"Name:\tkthreadd\n") == 0


def test_page_tables_are_counted():
    before = kernel_bytes()
    with mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ) as pages:
        for place in range(0, 8 << 30, 1 << 21):
            pages[place]
        assert kernel_bytes() - before >= 15 * MIB


def test_sockets_beyond_a_few_and_pipes_are_counted_at_the_most_that_they_keep():
    before, pairs = kernel_bytes(), [socket.socketpair() for _ in range(100)]
    assert kernel_bytes() - before >= (200 - uncounted.FREE_SOCKETS) * uncounted.SOCKET_BYTES
    assert uncounted.sockets_in_use() >= 200
    for pair in pairs:
        for end in pair:
            end.close()
    before, pipes = kernel_bytes(), [os.pipe() for _ in range(100)]
    assert kernel_bytes() - before == 100 * uncounted.PIPE_BYTES
    for ends in pipes:
        for end in ends:
            os.close(end)


def test_descriptors_beyond_the_most_that_are_looked_at_count_as_half_a_pipe(monkeypatch):
    open_now = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(uncounted, "MOST_DESCRIPTORS", open_now + 10)
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
    assert uncounted._ends([os.getpid()] * 2)[2] == 20 + (open_now + 30)
    assert kernel_bytes() >= 20 * uncounted.SMALL_PIPE_BYTES // 2
    for file in kept:
        os.close(file)


def test_files_without_a_name_are_counted_once_while_they_are_held(tmp_path):
    def unlinked():
        return uncounted.on_device(uncounted.unlinked_bytes([os.getpid(), os.getpid()]), str(tmp_path))

    before, path = unlinked(), tmp_path / "x"
    file = path.open("wb+")
    file.write(os.urandom(3 * MIB))
    file.flush()
    os.fsync(file.fileno())
    assert unlinked() == before
    path.unlink()
    other = os.dup(file.fileno())
    assert 3 * MIB <= unlinked() - before < 4 * MIB
    os.close(other)
    with mmap.mmap(file.fileno(), 0):
        file.close()
        if os.geteuid() == 0:
            assert 3 * MIB <= unlinked() - before < 4 * MIB
    assert unlinked() == before


def test_a_process_that_is_gone_uses_nothing(tmp_path):
    assert uncounted.kernel_bytes([2**22 + 1], own_network=False) == 0
    assert uncounted.unlinked_bytes([2**22 + 1]) == {}


def test_record_locks_are_counted_for_those_who_hold_them(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        for place in range(0, 200, 2):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        assert uncounted.lock_bytes([os.getpid()]) >= 100 * uncounted.LOCK_BYTES
        assert uncounted.lock_bytes([2**22 + 1]) == 0
    assert uncounted.lock_bytes([os.getpid()]) < 100 * uncounted.LOCK_BYTES


def test_more_record_locks_than_can_be_counted_are_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(uncounted, "MOST_LOCKS", 10)
    with (tmp_path / "x").open("wb") as file:
        for place in range(0, 30, 2):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        assert uncounted.lock_bytes([os.getpid()]) == uncounted.HIDDEN_BYTES


LOCKS = """
import fcntl, time
kept = [open(f"l{n}", "w") for n in range(170)]
for file in kept:
    for place in range(300, 0, -1): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * place)
time.sleep(60)
"""
NAMES = """
import os, time
for n in range(60_000): os.symlink("x", f"/tmp/{n}")
time.sleep(60)
"""


@pytest.mark.parametrize("script", [LOCKS, NAMES])
def test_locks_and_names_in_memory_count_as_memory(script):
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    result = run(script, Limits(seconds=60, cores=1, memory_bytes=48 * MIB), level="namespaces")
    assert result.status == "memory"


@pytest.mark.parametrize("level", ["namespaces", "landlock+seccomp"])
def test_a_script_that_keeps_sockets_and_pages_within_reason_is_not_stopped(level):
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    script = "import socket, os, time\nkept = [socket.socketpair() for _ in range(40)] + [os.pipe() for _ in range(40)]\ntime.sleep(0.5)"
    result = run(script, Limits(seconds=20, cores=1, memory_bytes=128 * MIB), level=level, minimum="limits")
    assert result.status == "ok", result.message
