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
        assert 0 < tree.shared_memory_bytes() <= tree.memory_bytes()  # in this order: it is only just starting
    finally:
        child.kill()
        child.wait()


def test_kill_and_reap_end_a_whole_family_in_a_process_of_its_own():
    code = (
        "import os, time\nfrom rewardrate.sandbox.box import capabilities, kernel, tree\nkernel.prctl(kernel.SUBREAPER, 1)\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        os.fork()\n        time.sleep(60)\n        os._exit(0)\n"
        "while len(tree.descendants(os.getpid())) < 6: time.sleep(0.01)\nconfig = {'can': capabilities.Capabilities(), 'drop_uid': False}\ntree.kill_all(config)\nprint(tree.reap_all(config), tree.descendants(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "(6, True) []\n"


def test_a_raised_priority_is_not_inherited():
    code = "import os, sys\nsys.stdin.readline()\nprint(os.sched_getscheduler(0), flush=True)\nif os.fork() == 0: print(os.sched_getscheduler(0), flush=True)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tree.raise_priority(child.pid)
    promoted = os.sched_getscheduler(child.pid) & ~os.SCHED_RESET_ON_FORK
    said = child.communicate("go\n")[0].splitlines()
    if promoted != os.SCHED_RR:
        pytest.skip("this user may not")
    assert [int(word) & ~os.SCHED_RESET_ON_FORK for word in said] == [os.SCHED_RR, os.SCHED_OTHER]


def test_the_main_threads_time_is_read_and_that_of_no_process_is_nothing():
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        pass
    ran, waited = tree.schedule(os.getpid())
    assert ran > 0
    assert waited >= 0
    assert tree.schedule(2**22 + 1) == (0.0, 0.0)


@pytest.mark.parametrize("name", [b"\xff\xfe", b") R 1 1", b"a b\n)", b"\x00", b"\xc3"])
def test_a_process_is_found_and_ended_whatever_it_calls_itself(name):
    code = f"import ctypes, time\nctypes.CDLL(None).prctl(15, {name!r})\nprint('named', flush=True)\nx = bytearray(64 << 20)\ntime.sleep(60)"
    program = (
        "import os, subprocess, sys, time\nfrom rewardrate.sandbox.box import capabilities, kernel, tree\nkernel.prctl(kernel.SUBREAPER, 1)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=subprocess.PIPE)\n"
        "assert child.stdout.readline() == b'named\\n'\n"
        "deadline = time.monotonic() + 50\n"
        "while tree.memory_bytes() < 64 << 20 and time.monotonic() < deadline: time.sleep(0.01)\n"
        "config = {'can': capabilities.Capabilities()}\nprint(child.pid in tree.descendants(os.getpid()), tree.memory_bytes() >= 64 << 20)\n"
        "tree.kill_all(config)\nprint(tree.reap_all(config), tree.descendants(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True True\n(1, True) []\n"


LEADERLESS = """
import ctypes, os, threading, time
from rewardrate.sandbox.box import tree
child = os.fork()
if child == 0:
    def keep():
        x = bytearray(b"x") * (64 << 20)
        time.sleep(60)
    threading.Thread(target=keep).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
deadline = time.monotonic() + 50
while tree.memory_bytes() < 64 << 20 and time.monotonic() < deadline: time.sleep(0.01)
while ") Z " not in open(f"/proc/{child}/stat").read() and time.monotonic() < deadline: time.sleep(0.01)
(shown,) = tree.visible([child])
print(tree.descendants(os.getpid()) == [child], shown in map(int, os.listdir(f"/proc/{child}/task")), shown != child)
print(tree.memory_bytes() >= 64 << 20, tree.shared_memory_bytes() >= 64 << 20, len(os.listdir(f"/proc/{shown}/fd")) > 2)
os.kill(child, 9)
while ") Z " not in open(f"/proc/{child}/stat").read() or len(os.listdir(f"/proc/{child}/task")) > 1: time.sleep(0.01)
print(tree.visible([child, 2**22 + 1]) == [child, 2**22 + 1], tree.memory_bytes())
"""


def test_what_a_process_uses_is_seen_after_its_main_thread_has_ended():
    done = subprocess.run([sys.executable, "-c", LEADERLESS], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "True True True\nTrue True True\nTrue 0\n", done.stderr


def test_patience_is_counted_from_the_last_one_that_ended_and_everyone_is_reported():
    code = (
        "import os, time\nfrom rewardrate.sandbox.box import capabilities, kernel, tree\nkernel.prctl(kernel.SUBREAPER, 1)\n"
        "for n in range(6):\n    if os.fork() == 0:\n        time.sleep(0.6 * n + 0.2)\n        os._exit(n)\n"
        "tree.kill_all = lambda config: None\ntold = []\n"  # nobody is killed: they take their time
        "print(tree.reap_all({}, 2.8, lambda process, status: told.append(os.waitstatus_to_exitcode(status))), sorted(told))\n"
        "if os.fork() == 0: time.sleep(300)\nprint(tree.reap_all({}, 0.1)); os.kill(0, 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120, start_new_session=True
    )
    assert done.stdout.splitlines()[0] == "(6, True) [0, 1, 2, 3, 4, 5]", "3.2 s, and never 2.8 without one of them"
