"""Cores belong to one run at a time, across processes."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import cores
from rewardrate.sandbox.stop import Stop, Stopped

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cores are pinned on Linux")

HOLD = """
import sys, time
from rewardrate.sandbox import cores
with cores.owned(len(cores.usable())) as mine:
    print(mine, flush=True)
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    """Locks of this test alone: others may be running boxes."""
    monkeypatch.setattr(cores, "FOLDER", tmp_path / "locks")
    return tmp_path / "locks"


def test_owned_cores_are_ours_until_the_block_ends():
    everything = len(cores.usable())
    with cores.owned(everything) as mine:
        assert mine == cores.usable()
        with pytest.raises(TimeoutError, match="not free within"), cores.owned(1, patience_seconds=0.1):
            pass
    with cores.owned(1, patience_seconds=60) as again:
        assert len(again) == 1


def test_a_process_that_is_killed_gives_its_cores_back(own_folder):
    code = (
        f"from pathlib import Path\nfrom rewardrate.sandbox import cores\ncores.FOLDER = Path({str(own_folder)!r})\n"
        + HOLD
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline().strip() == str(cores.usable())
        with pytest.raises(TimeoutError), cores.owned(1, patience_seconds=0.1):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with cores.owned(1, patience_seconds=60) as mine:
        assert mine


def test_whoever_waits_long_for_cores_is_reported_once_which_process_has_them(own_folder, monkeypatch, caplog):
    monkeypatch.setattr(cores, "NOTICE_SECONDS", 0.05)
    code = (
        f"from pathlib import Path\nfrom rewardrate.sandbox import cores\ncores.FOLDER = Path({str(own_folder)!r})\n"
        + HOLD
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        holder.stdout.readline()
        with pytest.raises(TimeoutError), cores.owned(1, patience_seconds=2):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert [str(holder.pid) in line for line in caplog.messages] == [True]


def test_waiting_for_our_own_boxes_is_no_news(monkeypatch, caplog):
    monkeypatch.setattr(cores, "NOTICE_SECONDS", 0.05)
    with (
        cores.owned(len(cores.usable())),
        pytest.raises(TimeoutError),
        cores.owned(1, patience_seconds=1),
    ):
        pass
    assert caplog.messages == []


def test_more_cores_than_there_are_is_a_mistake():
    with pytest.raises(InputError, match=r"^cores = 10000.*environment\.cores"), cores.owned(10_000):
        pass


def test_who_needs_all_cores_is_not_passed_by_those_who_need_one(own_folder):
    if len(cores.usable()) < 2:
        pytest.skip("needs two cores")
    code = (
        f"from pathlib import Path\nfrom rewardrate.sandbox import cores\ncores.FOLDER = Path({str(own_folder)!r})\n"
        "import time\nprint('go', flush=True)\n"
        "while True:\n    with cores.owned(1): time.sleep(0.05)\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    try:
        for other in others:
            assert other.stdout.readline() == "go\n"
        for _ in range(3):
            with cores.owned(len(cores.usable()), patience_seconds=60) as mine:
                assert mine == cores.usable()
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_a_stop_ends_the_waiting_and_leaves_every_lock_free():
    stop = Stop()
    with cores.owned(1):
        stop.set()
        with pytest.raises(Stopped), cores.owned(len(cores.usable()), stop=stop):
            pass
    stop.close()
    with cores.owned(len(cores.usable()), patience_seconds=60):
        pass


def test_waiting_for_some_cores_does_not_block_who_may_use_others(monkeypatch):
    if len(cores.usable()) < 2:
        pytest.skip("needs two cores")
    first, second, *_ = cores.usable()
    monkeypatch.setattr(cores, "usable", lambda: [first])
    with cores.owned(1):
        waiting: dict[str, int] = {}
        assert not cores._take(1, waiting)  # has the gate of the first core, and waits
        monkeypatch.setattr(cores, "usable", lambda: [second])
        with cores.owned(1, patience_seconds=60) as other:
            assert other == [second]
        for file in waiting.values():
            os.close(file)


def test_whoever_looks_on_learns_how_many_scripts_have_their_cores():
    assert cores.here() == (0, 0)
    with cores.owned(1):
        assert cores.here() == (1, 0)
    assert cores.here() == (0, 0)


def foreign_thread(seconds):
    """A thread that Python knows nothing of, as those of OpenMP and BLAS: its number."""
    libc, handle = ctypes.CDLL(None), ctypes.c_ulong()
    known = {path.name for path in Path("/proc/self/task").iterdir()}
    sleep = ctypes.cast(libc.sleep, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(handle), None, sleep, ctypes.c_void_p(seconds)) == 0
    libc.pthread_detach(handle)
    (made,) = {path.name for path in Path("/proc/self/task").iterdir()} - known
    return int(made)


def test_a_library_that_computes_for_this_thread_moves_with_it_and_no_other_thread_of_python_does():
    if len(cores.usable()) < 2:
        pytest.skip("needs two cores")
    everywhere, one = set(cores.usable()), set(cores.usable()[:1])
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    library = foreign_thread(20)
    with cores.pinned(one):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(library) == one
        assert os.sched_getaffinity(other.native_id) == everywhere
    assert os.sched_getaffinity(0) == os.sched_getaffinity(library) == everywhere
    done.set()
    other.join()
