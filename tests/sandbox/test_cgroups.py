"""A group limits memory where the machine lets us make one, and is gone afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pages
from rewardrate.sandbox import cgroups

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="groups are Linux's")

EAT = "import sys\nfor path in sys.argv[1:]: open(path, 'w').write('0')\nx = bytearray(256 << 20)\nprint('ate it')"


def test_a_group_stops_what_eats_too_much_counts_it_and_is_removed():
    with cgroups.group(64 << 20, 32) as made:
        if made is None:
            pytest.skip("no groups can be made here")
        done = subprocess.run([sys.executable, "-c", EAT, *made.joins], capture_output=True, text=True, check=False)
        assert done.returncode == -9
        assert made.ran_out()
        assert 32 << 20 < made.peak_bytes() <= 65 << 20
        folders = made.folders
    assert not any(folder.exists() for folder in folders)


def test_swap_counts_as_memory():
    with cgroups.group(64 << 20, 32) as made:
        found = [folder / "memory.memsw.limit_in_bytes" for folder in (made.folders if made else ())]
        if not any(path.exists() for path in found):
            pytest.skip("no group of version 1 that counts swap can be made here")
        assert int(found[0].read_text()) == 64 << 20


def test_a_group_with_a_living_process_is_emptied_and_removed():
    with cgroups.group(64 << 20, 32) as made:
        if made is None:
            pytest.skip("no groups can be made here")
        code = "import sys, time\nfor path in sys.argv[1:]: open(path, 'w').write('0')\nprint('in', flush=True)\ntime.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code, *made.joins], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "in\n"
    assert child.wait(60) == -9
    assert not any(folder.exists() for folder in made.folders)


READ = """import os, sys
for path in sys.argv[2:]: open(path, 'w').write('0')
file = os.open(sys.argv[1], os.O_RDONLY)
for page in range(0, 64, 7): os.pread(file, 1, page << 20)
"""


def test_pages_that_a_group_was_the_first_to_read_are_dropped_with_it_and_those_that_we_read_are_not(disk, monkeypatch):
    monkeypatch.setattr(cgroups, "EVICTION_SECONDS", 30)  # a busy disk is slow to bring what it was asked to read ahead
    theirs, ours = disk / "theirs", disk / "ours"
    for path in (theirs, ours):
        pages.on_disk(path, 64 << 20)
    kept = []
    while len(kept) < 5 and max(kept, default=0) <= 0.9:  # the kernel drops pages too, where it needs the memory
        ours.read_bytes()
        with cgroups.group(256 << 20, 32) as made:
            if made is None:
                pytest.skip("no groups can be made here")
            for path in (theirs, ours):
                subprocess.run([sys.executable, "-c", READ, str(path), *made.joins], check=True)
            assert pages.resident(theirs) < 1
        assert pages.resident(theirs) == 0
        kept.append(pages.resident(ours))
    assert kept[-1] > 0.9


def test_a_version_2_group_is_asked_to_give_back_all_that_it_has(tmp_path):
    (tmp_path / "memory.current").write_text("4096\n")
    cgroups.Group((tmp_path,), 2).evict()
    assert (tmp_path / "memory.reclaim").read_text() == "4096"
    cgroups.Group((tmp_path / "gone",), 2).evict()


def test_where_there_are_no_groups_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroups, "_places", lambda: (None, None))
    with cgroups.group(64 << 20, 32) as made:
        assert made is None
    monkeypatch.setattr(cgroups, "_places", lambda: ((tmp_path / "no", tmp_path / "no"), tmp_path / "no"))
    with cgroups.group(64 << 20, 32) as made:
        assert made is None


def test_a_group_that_cannot_be_read_says_nothing(tmp_path):
    lost = cgroups.Group((tmp_path,), 2)
    assert (lost.peak_bytes(), lost.ran_out()) == (0, False)


def test_limits_are_handed_down_once(tmp_path):
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("cpu")
    cgroups._share(tmp_path)
    assert control.read_text() == "+memory +pids"
    control.write_text("cpu memory pids")
    cgroups._share(tmp_path)
    assert control.read_text() == "cpu memory pids"


def test_our_place_in_a_delegated_group_is_above_our_own_processes(monkeypatch, tmp_path):
    (tmp_path / "cgroup").write_text("0::/user.slice/scope/rewardrate-own\n")
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self: real(tmp_path / "cgroup" if str(self) == "/proc/self/cgroup" else self)
    )
    assert cgroups._places() == (None, Path("/sys/fs/cgroup/user.slice/scope"))


def test_processes_of_a_delegated_version_2_group_move_to_a_child_of_it_and_of_another_group_do_not():
    base = next(
        (Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if " cgroup2 " in line), None
    )
    if base is None or not os.access(base, os.W_OK) or "memory" in (base / "cgroup.controllers").read_text():
        pytest.skip("needs a version 2 hierarchy of our own without controllers")
    place = base / f"rewardrate-test-{os.getpid()}"
    place.mkdir()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (place / "cgroup.procs").write_text(str(child.pid))
        with pytest.raises(OSError, match=r"\w"):  # there is no memory controller here to hand down
            cgroups._share(place)
        assert not cgroups.delegated(place)
        assert (place / "cgroup.procs").read_text().split() == [str(child.pid)]
        os.setxattr(place, "user.delegate", b"1")
        assert cgroups.delegated(place)
        with pytest.raises(OSError, match=r"\w"):
            cgroups._share(place)
        assert (place / "cgroup.procs").read_text() == ""
        assert (place / cgroups.OWN / "cgroup.procs").read_text().split() == [str(child.pid)]
    finally:
        child.kill()
        child.wait()
        cgroups._remove(place / cgroups.OWN)
        cgroups._remove(place)
    assert not place.exists()


def test_a_version_2_group_limits_memory_and_processes_and_spares_the_init(monkeypatch, tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    monkeypatch.setattr(cgroups, "_places", lambda: (None, tmp_path))
    made = cgroups._make(2**20, 9)
    assert made.version == 2
    assert {path.name: path.read_text() for path in made.folders[0].iterdir()} == {
        "memory.max": "1048576",
        "pids.max": "9",
    }
    (made.folders[0] / "memory.peak").write_text("77")
    (made.folders[0] / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert (made.peak_bytes(), made.ran_out()) == (77, True)


def test_groups_of_dead_supervisors_are_swept_and_those_of_living_ones_are_not(tmp_path):
    dead, living = tmp_path / f"rewardrate-{2**22 + 1}-0", tmp_path / f"rewardrate-{os.getpid()}-7"
    used, other = tmp_path / f"rewardrate-{2**22 + 1}-1", tmp_path / "rewardrate-trial-x"
    for folder in (dead, living, used, other):
        folder.mkdir()
    (used / "child").mkdir()
    cgroups.sweep(tmp_path)
    cgroups.sweep(tmp_path / "nowhere")
    assert {folder.name for folder in tmp_path.iterdir()} == {living.name, used.name, other.name}
