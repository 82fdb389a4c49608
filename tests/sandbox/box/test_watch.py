"""The watch charges what it measured and stops what it must, also without a memory group."""

import os
import sys

import pytest

from rewardrate.sandbox import Limits, levels, run
from rewardrate.sandbox.box.watch import _too_much

LIMITS = Limits(seconds=5, cores=1, memory_bytes=2**27, disk_bytes=2**25)


def test_without_a_group_many_processes_together_are_still_stopped():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    script = "import os, time\nfor _ in range(3): os.fork()\nx = bytes(40 << 20)\nx = bytearray(x)\ntime.sleep(60)"
    result = run(script, LIMITS, level="namespaces")
    assert result.status == "memory"
    assert result.peak_memory_bytes < 2.5 * LIMITS.memory_bytes


def test_cpu_time_of_children_is_counted():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    script = "import os, time\nif os.fork() == 0:\n    t = time.process_time()\n    while time.process_time() - t < 0.5: pass\n    os._exit(0)\nos.wait()"
    assert run(script, LIMITS).cpu_seconds >= 0.5


def test_a_folder_is_counted_only_until_it_is_too_much(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(os.urandom(50_000))
    assert not _too_much(str(tmp_path), 10**6)
    assert _too_much(str(tmp_path), 10_000)
    assert not _too_much(str(tmp_path / "nowhere"), 1)
