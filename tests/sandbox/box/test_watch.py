"""The watch charges what it measured and stops what it must, also without a memory group."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rewardrate.sandbox import Limits, levels, run
from rewardrate.sandbox.box.watch import _open_folder, _too_much

LIMITS = Limits(seconds=60, cores=1, memory_bytes=2**27, disk_bytes=2**25)


def test_without_a_group_many_processes_together_are_still_stopped():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    script = "import os, time\nfor _ in range(4): os.fork()\nx = bytearray(b'x') * (64 << 20)\ntime.sleep(60)"
    result = run(script, LIMITS, level="namespaces")
    assert result.status == "memory"
    assert result.peak_memory_bytes < 7 * LIMITS.memory_bytes, "of eight times as much"


def test_cpu_time_of_children_is_counted():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    script = "import os, time\nif os.fork() == 0:\n    t = time.process_time()\n    while time.process_time() - t < 0.5: pass\n    os._exit(0)\nos.wait()"
    assert run(script, LIMITS).cpu_seconds >= 0.5


THREADS = """
import hashlib, threading, time
def work():
    while time.process_time() < 0.8: hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2000)  # lets the others run meanwhile
threads = [threading.Thread(target=work) for _ in range(7)]
for thread in threads: thread.start()
work()
"""
CHILDREN = """
import os, time
for _ in range(7):
    if os.fork() == 0:
        while time.process_time() < 0.1: pass
        os._exit(0)
while time.process_time() < 0.1: pass
for _ in range(7): os.wait()
"""


@pytest.mark.parametrize("script", [THREADS, CHILDREN])
@pytest.mark.parametrize("level", ["namespaces+cgroup", "namespaces", "landlock+seccomp"])
def test_waiting_behind_its_own_threads_and_children_is_no_contamination(level, script):
    if level not in available():
        pytest.skip("this machine does not allow it")
    result = run(script, LIMITS, level=level, minimum="limits")
    others = result.foreign_share * result.seconds  # this test must hold on a busy machine too
    assert result.status == "ok"
    assert result.wait_seconds <= others + 0.05 * result.seconds + 0.03


@pytest.mark.parametrize("script", [THREADS, "import time\nwhile time.process_time() < 0.5: pass"])
def test_a_foreign_process_on_its_core_is_contamination_whatever_the_script_does(script, busy_cores):
    if not available():
        pytest.skip("needs namespaces")
    assert run(script, LIMITS).contaminated


def available():
    names = [level.name for level in levels.LEVELS]
    return names[names.index(levels.try_isolation().level.name) :] if sys.platform.startswith("linux") else []


def test_a_folder_is_counted_only_until_it_is_too_much(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(os.urandom(50_000))
    assert not _too_much(str(tmp_path), 10**6)
    assert _too_much(str(tmp_path), 10_000)
    assert not _too_much(str(tmp_path / "nowhere"), 1)


def test_a_folder_deeper_than_a_path_can_name_is_counted(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.write(file, os.urandom(400_000))
    os.close(file)
    os.close(here)
    assert not _too_much(str(tmp_path), 10**6)
    assert _too_much(str(tmp_path), 300_000)


CLOSED = """
import os, sys
from rewardrate.sandbox.box.watch import _open_folder, _too_much
os.chdir(sys.argv[1])
os.setresuid(65534, 65534, 65534) if os.geteuid() == 0 else None
os.mkdir("closed", 0o300)
open("closed/file", "wb").write(os.urandom(50_000))
print(_too_much(".", 10**6), _too_much(".", 10_000))
"""


def test_a_folder_that_its_owner_cannot_list_is_counted(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, str(tmp_path / "open")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def test_what_is_no_folder_any_more_is_not_counted(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/usr")
    root = os.open(tmp_path, os.O_PATH)
    assert [_open_folder(root, name) for name in ("file", "link", "gone")] == [None] * 3
    os.close(root)


BUFFERS = """
import socket, time
listener, kept = socket.create_server(("127.0.0.1", 0), backlog=99), []
for _ in range(120): kept += [socket.create_connection(listener.getsockname()), listener.accept()[0]]
time.sleep({})
"""


@pytest.mark.parametrize("level", ["namespaces+cgroup", "namespaces"])
def test_the_buffers_of_sockets_count_as_memory_also_where_a_group_does_not_count_them(level):
    if level not in available():
        pytest.skip("this machine does not allow it")
    little = replace(LIMITS, seconds=60, memory_bytes=2**25)
    assert run(BUFFERS.format(60), little, level=level).status == "memory"
    assert run(BUFFERS.format(0.5), replace(little, memory_bytes=2**30), level=level).status == "ok"
