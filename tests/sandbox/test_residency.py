"""What every script reads is in memory before any script reads it, so that reading it says nothing."""

import os
import sys
import time
from pathlib import Path

import pytest

import pages
from rewardrate.sandbox import Job, Limits, attacks_isolation, cgroups, cores, levels, residency, run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the page cache is Linux's here")


def brings(path, ask, share=0.0):
    """Whether more than that share of a file is in memory after `ask`, which is called again for a minute.

    The kernel reads ahead in the background, leaves out what it has no memory for, and drops pages when it likes.
    """
    for _ in range(60):
        ask()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            if pages.resident(path) > share:
                return True
            time.sleep(0.01)
    return False


def test_packages_are_those_of_the_environment_and_of_the_interpreter_below_it():
    places = residency.packages(Job("pass"))
    assert any((Path(place) / "site-packages").is_dir() for place in places)
    assert any((Path(place) / "os.py").exists() for place in places)


def test_files_are_read_the_smallest_first_and_no_more_than_allowed(disk):
    (disk / "deep").mkdir()
    pages.on_disk(disk / "deep" / "small", 300_000)
    pages.on_disk(disk / "large", 3_000_000)
    (disk / "link").symlink_to("/proc/kcore")
    os.mkfifo(disk / "pipe")
    assert residency.read_ahead(str(disk), 1_000_000) == 300_000
    assert brings(disk / "deep" / "small", lambda: residency.read_ahead(str(disk), 1_000_000))
    assert pages.resident(disk / "large") == 0
    assert residency.read_ahead(str(disk), 10**7) == 3_300_000
    assert residency.read_ahead(str(disk / "nowhere"), 10**7) == 0
    assert brings(disk / "large", lambda: residency.read_ahead(str(disk), 10**7))


def test_shared_libraries_come_first_and_what_does_not_fit_is_passed_over(disk):
    pages.on_disk(disk / "small.py", 300_000)
    pages.on_disk(disk / "large.so.1", 900_000)
    pages.on_disk(disk / "larger.so", 3_000_000)
    assert residency.read_ahead(str(disk), 1_000_000) == 900_000
    assert brings(disk / "large.so.1", lambda: residency.read_ahead(str(disk), 1_000_000))
    assert (pages.resident(disk / "small.py"), pages.resident(disk / "larger.so")) == (0, 0)
    assert residency.read_ahead(str(disk), 1_500_000) == 1_200_000


def test_packages_are_read_once_an_hour_by_one_process_of_the_machine(disk, monkeypatch):
    monkeypatch.setattr(cores, "FOLDER", disk / "locks")
    monkeypatch.setattr(residency, "shown", lambda job: [])
    python, file = disk / "bin" / "python", disk / "lib" / "python3.11" / "module.py"
    for folder in (python.parent, file.parent):
        folder.mkdir(parents=True)
    python.write_text("")
    pages.on_disk(file, 500_000)
    job = Job("pass", python=str(python))

    def hours_later():
        for mark in (disk / "locks").glob("resident-*"):
            os.utime(mark, (1, 1))
        residency._done.clear()
        residency.preload(job)

    assert brings(file, hours_later)
    pages.evict(file)
    residency.preload(job)
    residency._done.clear()  # as another process, which sees the first one's mark
    residency.preload(job)
    assert pages.resident(file) == 0
    assert len(list((disk / "locks").glob("resident-*"))) == 1
    assert brings(file, hours_later)


WRITE = "import os\nfile = os.open('data/file', os.O_RDONLY)\nfor page in range(0, 4096, 97): os.pread(file, 1, page * 4096)"


def test_what_a_script_reads_first_is_gone_with_it_where_there_is_a_group(disk, monkeypatch):
    """A file that we have not read, as a message to the next script."""
    if levels.try_isolation().level.name != "namespaces+cgroup":
        pytest.skip("needs a memory group")
    monkeypatch.setattr(cgroups, "EVICTION_SECONDS", 30)  # a busy disk is slow to bring what it was asked to read ahead
    disk.chmod(0o755)
    file = disk / "file"
    pages.on_disk(file, 16 << 20)
    file.chmod(0o644)
    limits = Limits(seconds=20, cores=1, memory_bytes=2**28)
    monkeypatch.setitem(residency._done, str(file), time.monotonic())  # as if the kernel had needed the memory since
    assert run(WRITE, limits, data={"file": file}).status == "ok"
    assert pages.resident(file) == 0


def flag_attack(disk):
    """Parts of a data file whose "referenced" flag a script sees, looked at six times with a read after each."""
    row = next(row for row in attacks_isolation.FLAGGING if row[0].startswith("leave a message in the flags"))
    (disk / "data").mkdir()
    disk.chmod(0o755)
    (disk / "data" / "long.txt").write_bytes(bytes(1 << 20))
    script = "DATA = 'data/task'\n" + row[1]
    result = run(script, Limits(seconds=20, cores=1, memory_bytes=2**28), data={"task": disk / "data"})
    assert result.status == "ok", result.stderr
    return result.stdout


def test_flags_of_pages_are_all_set_before_a_script_can_set_some_as_a_message(disk):
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    assert "the same" in flag_attack(disk)


def test_flags_of_small_data_are_set_before_every_run_and_of_large_data_once_an_hour(disk, monkeypatch):
    made = []
    monkeypatch.setattr(residency, "set_flags", made.append)
    (disk / "lib").mkdir()
    for size, expected in ((4096, 2), (residency.SMALL_BYTES + 1, 1)):
        file = disk / f"{size}"
        file.write_bytes(bytes(size))
        job = Job("pass", data={"file": file}, python=sys.executable)
        made.clear()
        residency.preload(job)
        residency.preload(job)
        assert made == [str(file)] * expected


def test_otherwise_a_script_reads_in_the_flags_of_pages_what_another_has_read(disk, monkeypatch):
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    monkeypatch.setattr(residency, "set_flags", lambda place: None)
    assert "LEAK" in flag_attack(disk)


def test_setting_flags_reads_nothing_that_is_not_in_memory(disk):
    pages.on_disk(disk / "file", 1 << 20)
    residency.set_flags(str(disk))
    assert pages.resident(disk / "file") == 0


def test_what_is_shown_beside_packages_is_the_system_and_the_interpreter():
    places = residency.shown(Job("pass"))
    assert "/usr" in places
    assert any(Path(sys.executable).resolve().is_relative_to(place) for place in places)


def test_data_are_read_in_full_before_a_script_runs(disk):
    file = disk / "file"
    pages.on_disk(file, 1 << 20)
    assert residency.read_ahead(str(file), 10**7, wait=True) == 1 << 20
    assert brings(file, lambda: residency.read_ahead(str(file), 10**7, wait=True), share=0.999)
