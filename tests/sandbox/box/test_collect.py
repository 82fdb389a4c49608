"""Only plain files of their own come out of a working directory."""

import os
import sys

import pytest

from rewardrate.sandbox.box.collect import collect

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="openat2 is Linux's")


def test_plain_files_come_back_and_everything_else_is_refused_with_its_reason(tmp_path):
    (tmp_path / "plain").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("plain")
    os.link(tmp_path / "plain", tmp_path / "hard")
    (tmp_path / "own").write_bytes(b"own")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "huge").open("wb").truncate(10**9)
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        files, refused = collect(folder, ["own", "link", "hard", "folder", "fifo", "huge", "none", "../x"], 1000)
    finally:
        os.close(folder)
    assert files == {"own": b"own"}
    assert refused == {
        "link": "symlink",
        "hard": "hardlink",
        "folder": "not a plain file",
        "fifo": "not a plain file",
        "huge": "too big",
        "none": "missing",
        "../x": "outside",
    }
