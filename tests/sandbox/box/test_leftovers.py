"""What a script has left in the shared /dev/shm is gone before the next one, and what others keep there is not."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.sandbox import Limits, run, users
from rewardrate.sandbox.box import leftovers

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="isolation is Linux's")
SYSTEM_PYTHON = "/usr/bin/python3"


def test_everything_of_a_user_is_removed_and_nothing_of_another(tmp_path):
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "file").write_text("x")
    (tmp_path / "-rf").write_text("x")
    (tmp_path / "link").symlink_to("/")
    leftovers.remove(os.geteuid() + 1, str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "-rf", "link"}
    leftovers.remove(os.geteuid(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    leftovers.remove(os.geteuid(), str(tmp_path / "nowhere"))


def test_files_in_folders_and_names_alone_are_counted(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(os.urandom(200_000))
    (tmp_path / "name").write_text("")
    assert 200_000 + 4 * leftovers.NAME_BYTES <= leftovers.bytes_of(os.geteuid(), str(tmp_path)) < 300_000
    assert leftovers.bytes_of(os.geteuid() + 1, str(tmp_path)) == 0


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")
def test_a_left_over_file_does_not_end_the_next_script_as_memory():
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("needs a Python that every user may run")
    file, name = tempfile.mkstemp(prefix="rewardrate-left-", dir=leftovers.SHARED_MEMORY)
    kept, kept_name = tempfile.mkstemp(prefix="rewardrate-kept-", dir=leftovers.SHARED_MEMORY)
    try:
        os.truncate(name, 80 << 20)
        os.posix_fallocate(file, 0, 80 << 20)
        limits = Limits(seconds=20, cores=1, memory_bytes=64 << 20)
        for core in os.sched_getaffinity(0):
            if Path(name).exists():
                os.chown(name, users.of(core)[0], 0)
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {core})
            try:
                script = "import os, time\ntime.sleep(0.4)\nprint(os.listdir('/dev/shm'))"
                result = run(script, limits, level="uid+landlock+seccomp", minimum="limits", python=SYSTEM_PYTHON)
            finally:
                os.sched_setaffinity(0, before)
            assert result.status == "ok", result.message
            assert os.path.basename(name) not in result.stdout
        assert not Path(name).exists()
        assert Path(kept_name).exists()
    finally:
        os.close(file)
        os.close(kept)
        for path in (name, kept_name):
            Path(path).unlink(missing_ok=True)
