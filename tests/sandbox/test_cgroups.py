"""A group limits memory where the machine lets us make one, and is gone afterwards."""

import subprocess
import sys

import pytest

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


def test_a_group_with_a_living_process_is_emptied_and_removed():
    with cgroups.group(64 << 20, 32) as made:
        if made is None:
            pytest.skip("no groups can be made here")
        code = "import sys, time\nfor path in sys.argv[1:]: open(path, 'w').write('0')\nprint('in', flush=True)\ntime.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", code, *made.joins], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "in\n"
    assert child.wait(5) == -9
    assert not any(folder.exists() for folder in made.folders)


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
