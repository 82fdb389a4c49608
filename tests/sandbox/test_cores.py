"""Cores belong to one run at a time, across processes."""

import subprocess
import sys

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import cores

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cores are pinned on Linux")

HOLD = """
import sys, time
from rewardrate.sandbox import cores
with cores.owned(len(cores.usable())) as mine:
    print(mine, flush=True)
    time.sleep(30)
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
    with cores.owned(1, patience_seconds=1.0) as again:
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
    with cores.owned(1, patience_seconds=2.0) as mine:
        assert mine


def test_more_cores_than_there_are_is_a_mistake():
    with pytest.raises(InputError, match=r"limits\.cores"), cores.owned(10_000):
        pass
