"""The lock and the checkpoints: whole or not at all, one writer at a time."""

import os
import subprocess
import sys

import pytest

from rewardrate.errors import InputError
from rewardrate.runlog import folder as files


def write_weights(text):
    return lambda path: (path / "weights").write_text(text)


def test_a_second_writer_is_refused_by_name_until_the_first_lets_go(tmp_path):
    first = files.WriterLock(tmp_path)
    with pytest.raises(InputError, match=rf"another process is writing this run \(process {os.getpid()}\)"):
        files.WriterLock(tmp_path)
    first.release()
    first.release()
    files.WriterLock(tmp_path).release()


def test_a_child_that_outlives_the_writer_does_not_hold_the_run(tmp_path):
    code = (
        "import os, sys, time; from pathlib import Path; from rewardrate.runlog.folder import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1]))\n"
        "pid = os.fork()\n"
        "if pid == 0: os.close(1); os.close(2); time.sleep(60)\n"
        "print(pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    child = int(done.stdout)
    try:
        os.kill(child, 0)  # it lives
        files.WriterLock(tmp_path).release()
    finally:
        os.kill(child, 9)


def test_a_folder_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="it cannot be written"):
        files.WriterLock(tmp_path / "missing")


def test_a_checkpoint_is_there_as_a_whole_or_not_at_all(tmp_path):
    def fail(path):
        (path / "weights").write_text("half")
        raise RuntimeError("the disk went away")

    assert files.write_checkpoint(tmp_path, 7, write_weights("seven")) == "step-000007"
    with pytest.raises(RuntimeError):
        files.write_checkpoint(tmp_path, 8, fail)
    assert (tmp_path / "checkpoints/step-000007/weights").read_text() == "seven"
    assert not (tmp_path / "checkpoints/step-000008").exists()
    files.write_checkpoint(tmp_path, 8, write_weights("eight"))
    assert (tmp_path / "checkpoints/step-000008/weights").read_text() == "eight"


def test_a_checkpoint_left_from_before_a_crash_is_replaced(tmp_path):
    for text in ("old", "new"):
        files.write_checkpoint(tmp_path, 3, write_weights(text))
    assert (tmp_path / "checkpoints/step-000003/weights").read_text() == "new"


def test_checkpoints_that_are_not_kept_are_removed_half_written_ones_too(tmp_path):
    for step in (1, 2, 3):
        files.write_checkpoint(tmp_path, step, write_weights("w"))
    (tmp_path / "checkpoints/step-000004.partial").mkdir()
    (tmp_path / "checkpoints/step-000005").write_text("a file")
    (tmp_path / "checkpoints/mine").mkdir()
    files.remove_checkpoints(tmp_path, {"step-000002"})
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["mine", "step-000002"]


def test_a_file_is_replaced_as_a_whole(tmp_path):
    for text in ("one", "zwei äöü"):
        files.write_file(tmp_path / "config.toml", text)
    assert (tmp_path / "config.toml").read_text(encoding="utf-8") == "zwei äöü"
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]
