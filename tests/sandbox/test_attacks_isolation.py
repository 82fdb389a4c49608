"""The scripts against what boxes share: each is told from its neighbours, and some do bite where nothing protects."""

import subprocess
import sys

import pytest

from rewardrate.sandbox.attacks import SHARING
from rewardrate.sandbox.attacks_isolation import ROWS

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the calls are Linux's")
# Harmless ones, which must succeed outside a box, or the suite would show nothing.
BITING = [
    "ask which pages are in memory by reading without waiting",
    "ask which pages are in memory with mincore",
    "evict a library by advice",
    "link boxes by a lock on a shared file",
    "link boxes by record locks on a shared file",
    "link boxes by locks of open files",
    "watch who opens a shared file",
    "leave a message in a counter of the machine",
    "leave a message in the numbers of sockets",
    "ask for a shared file's extents, which the kernel then keeps",
]


def test_every_row_is_an_attack_of_its_own():
    assert [attack.name for attack in SHARING] == [row[0] for row in ROWS]
    assert len({attack.script for attack in SHARING}) == len(ROWS) >= 12
    assert {attack.runs for attack in SHARING} == {1, 2}
    assert {attack.honest for attack in SHARING} == {False, True}


@linux
@pytest.mark.parametrize("name", BITING)
def test_it_bites_where_nothing_protects(name):
    script = next(attack.script for attack in SHARING if attack.name == name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "LEAK" in done.stdout


@linux
def test_honest_ones_work_without_a_box_too(tmp_path):
    (tmp_path / "data").mkdir()
    for attack in SHARING:
        if attack.honest:
            subprocess.run([sys.executable, "-c", attack.script], check=True, cwd=tmp_path)
