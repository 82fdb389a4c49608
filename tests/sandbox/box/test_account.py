"""CPU time is counted also where nobody waited for it; what cannot be counted is bounded."""

import os
import subprocess
import sys
import time

import pytest

from rewardrate.sandbox import cgroups
from rewardrate.sandbox.box.account import core_seconds, last_process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")

# An init's part in small: join the groups, begin, fork a script that starts a child nobody waits for, reap, end.
HIDDEN = """
import os, signal, sys, time
from rewardrate.sandbox.box.account import Account, Start
*groups, file = sys.argv[1:]
for group in groups: open(group, "w").write("0")
cores = sorted(os.sched_getaffinity(0))
account = Account(file or None, cores)
account.begin()
if os.fork() == 0:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    read, write = os.pipe()
    if os.fork() == 0:
        while time.process_time() < 0.6: pass
        os._exit(0)
    os.close(write)
    os.read(read, 1)
    os._exit(0)
os.wait()
for alone in (False, True):
    usage = account.end(Start(0, 0.0, 0.0), alone=alone)
    print(usage.seconds, usage.most_seconds, usage.foreign_share)
"""


def account(*arguments):
    command = [sys.executable, "-c", HIDDEN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def test_a_control_group_counts_children_that_the_kernel_reaped():
    with cgroups.group(2**28, 32) as made:
        if made is None or made.cpu_account is None:
            pytest.skip("no group that counts CPU time can be made here")
        for seconds, most, _ in account(*made.joins, made.cpu_account):
            assert 0.6 <= seconds == most < 1.2


def test_without_a_group_they_are_bounded_by_all_work_on_the_cores_unless_there_were_none():
    (seconds, most, foreign), (_, alone, _) = account("")
    assert seconds < 0.4
    assert most >= 0.55  # the kernel's idle time is in hundredths of a second
    assert foreign > 0
    assert alone == seconds


def test_a_version_2_account_is_read_too(tmp_path):
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n")
    assert cgroups.Group((tmp_path,), 2).cpu_account == str(tmp_path / "cpu.stat")
    assert cgroups.Group((tmp_path,), 1).cpu_account is None
    from rewardrate.sandbox.box.account import Account

    assert Account(str(tmp_path / "cpu.stat"), [0])._group_seconds() == 1.5


def test_cores_that_work_are_not_idle_even_if_they_rest_at_every_tick():
    def missed():
        """Seconds that we worked beyond those that the cores were not idle."""
        cores = sorted(os.sched_getaffinity(0))
        (before, _), end = core_seconds(cores, file.fileno()), time.monotonic() + 0.3
        start = time.process_time()
        while time.monotonic() < end:
            pass
        return time.process_time() - start - (core_seconds(cores, file.fileno())[0] - before) - 0.01 * len(cores) - 0.02

    with open("/proc/stat", "rb") as file:
        assert min(missed() for _ in range(4)) <= 0  # once in a while we are interrupted while we look


def test_the_last_number_given_is_that_of_a_new_process():
    child = subprocess.Popen(["true"])
    child.wait()
    assert last_process() > 0
