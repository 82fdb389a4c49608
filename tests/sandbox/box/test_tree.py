"""Processes of a box: found, measured, ended."""

import os
import subprocess
import sys
import time

import pytest

from rewardrate.sandbox.box import tree

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")


def test_descendants_are_found_whatever_session_they_are_in():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True)
    try:
        assert child.pid in tree.descendants(os.getpid())
        assert tree.memory_bytes() >= tree.shared_memory_bytes() > 0
    finally:
        child.kill()
        child.wait()


def test_kill_and_reap_end_a_whole_family_in_a_process_of_its_own():
    code = (
        "import os, time\nfrom rewardrate.sandbox.box import kernel, tree\nkernel.prctl(kernel.SUBREAPER, 1)\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        os.fork()\n        time.sleep(60)\n        os._exit(0)\n"
        "time.sleep(0.3)\nconfig = {'mode': 'landlock', 'drop_uid': False}\ntree.kill_all(config)\nprint(tree.reap_all(config), tree.descendants(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "(6, True) []\n"


def test_who_goes_first_in_line_does_so_alone_and_its_children_do_not():
    code = "import os, sys\nsys.stdin.readline()\nprint(os.sched_getscheduler(0), flush=True)\nif os.fork() == 0: print(os.sched_getscheduler(0), flush=True)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tree.first_in_line(child.pid)
    promoted = os.sched_getscheduler(child.pid) & ~os.SCHED_RESET_ON_FORK
    said = child.communicate("go\n")[0].splitlines()
    if promoted != os.SCHED_RR:
        pytest.skip("this user may not")
    assert [int(word) & ~os.SCHED_RESET_ON_FORK for word in said] == [os.SCHED_RR, os.SCHED_OTHER]


def test_busy_ticks_grow_when_a_core_works():
    cores = sorted(os.sched_getaffinity(0))
    before, end = tree.busy_ticks(cores), time.monotonic() + 0.3
    while time.monotonic() < end:
        pass
    assert tree.busy_ticks(cores) > before
    ran, waited = tree.schedule(os.getpid())
    assert ran > 0
    assert waited >= 0
    assert tree.schedule(2**22 + 1) == (0.0, 0.0)
