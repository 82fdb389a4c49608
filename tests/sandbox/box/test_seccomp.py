"""The filter refuses what it must and lets the rest pass, in a process of its own."""

import os
import subprocess
import sys

import pytest

from rewardrate.sandbox.box import seccomp

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine not in seccomp.ARCHITECTURES,
    reason="Linux on a known machine",
)

PROGRAM = """
import ctypes, os, socket, threading
from rewardrate.sandbox.box import kernel, seccomp
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
kernel.load_filter(seccomp.program((seccomp.AF_UNIX,), count_memory=True))
def refused(call):
    try: call()
    except OSError as e: return e.errno
    return 0
socket.socket(socket.AF_UNIX).close()
print(refused(lambda: socket.socket(socket.AF_INET)), refused(lambda: kernel.unshare(0x10000000)), refused(lambda: os.memfd_create('x')))
print(refused(lambda: os.sched_setaffinity(0, {0})), os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1]))
thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
"""


def test_the_filter_does_what_it_says_and_threads_and_processes_still_start():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["97", "1", "1", "1", "0", "thread"]


def test_no_number_stands_twice_and_every_jump_stays_inside():
    column, _ = seccomp.ARCHITECTURES[os.uname().machine]
    numbers = [
        pair[column] for table in (seccomp.REFUSED, seccomp.ABSENT, seccomp.UNCOUNTED) for pair in table.values()
    ]
    known = [number for number in numbers if number is not None]
    assert len(known) == len(set(known))
    assert len(seccomp.program((1, 2), count_memory=False)) % 8 == 0
