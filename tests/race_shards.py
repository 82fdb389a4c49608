"""The shards of the small races, made once for all tests of a session, whatever process they run in."""

import fcntl
import os
from pathlib import Path

from rewardrate.environments.speedrun import data, race


def cache(factory) -> Path:
    """A cache folder (XDG_CACHE_HOME) that holds them; `factory` is pytest's tmp_path_factory. For reading only."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with open(base / "race-shards.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data.make(race.load("nanogpt-tiny", data=folder(base)))
    return base / "race-shards"


def folder(base: Path) -> Path:
    """Where the shards lie below a base."""
    return base / "race-shards" / "rewardrate" / "races"


def made(factory) -> Path:
    """The folder to give as `data`."""
    return cache(factory) / "rewardrate" / "races"
