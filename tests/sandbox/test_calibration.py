"""The calibration runs real work in the box and scores the best of it."""

import subprocess
import sys

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import levels
from rewardrate.sandbox.calibration import REFERENCE_SECONDS, calibrate


@pytest.fixture(autouse=True)
def needs_namespaces():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")


def test_the_score_is_the_reference_over_the_best_run():
    found = calibrate(2)
    assert found.score == REFERENCE_SECONDS / found.seconds
    assert 0.05 < found.seconds < 60
    assert found.spread >= 0
    assert (found.runs, "namespaces" in found.level) == (2, True)


def test_what_cannot_be_calibrated_is_said():
    with pytest.raises(InputError, match="runs = 0"):
        calibrate(0)
    bare = "/usr/bin/python3"
    if subprocess.run([bare, "-c", "import numpy"], capture_output=True, check=False).returncode == 1:
        with pytest.raises(InputError, match=r"ended as error.*numpy"):
            calibrate(1, python=bare)
