"""The test that takes every core away and those that need one in time are not run side by side."""

import fcntl

import pytest


@pytest.fixture
def in_turn(tmp_path_factory):
    """Held by one test at a time, over all workers: without a control group memory is watched by looking often."""
    place = tmp_path_factory.getbasetemp().parent / "in-turn.lock"
    with open(place, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
