"""What tests of the sandbox share: a turn for those that need a core in time, a folder on a disk."""

import fcntl
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def in_turn(tmp_path_factory):
    """Held by one test at a time, over all workers: without a control group memory is watched by looking often."""
    place = tmp_path_factory.getbasetemp().parent / "in-turn.lock"
    with open(place, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def disk():
    """A folder where pages can be evicted: not where /tmp is memory."""
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-pages-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
