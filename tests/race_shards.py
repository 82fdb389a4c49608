"""The shards of the small races, made once for all tests of a session, whatever process they run in."""

import fcntl
import os
import shutil
from pathlib import Path

from rewardrate.environments.cache import default_folder
from rewardrate.environments.speedrun import data, race, splits

PATIENT = {"cap_seconds": 400, "recompute_seconds": 600}  # rules for tests that must pass on a busy machine too


def cache(factory) -> Path:
    """A cache folder (XDG_CACHE_HOME) that holds them; `factory` is pytest's tmp_path_factory. For reading only."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with open(base / "race-shards.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "race-shards.made").exists():
            folder(base).mkdir(parents=True, exist_ok=True)
            (folder(base) / splits.KEY).write_bytes(bytes(range(splits.KEY_BYTES)))  # the same split and seeds always
            data.make(race.load("nanogpt-tiny", data=folder(base)))
            for known in default_folder("races").glob(".without-copies-*.npy"):  # what was found out about this machine
                if known.parent != folder(base):
                    shutil.copy(known, folder(base))
            (base / "race-shards.made").touch()
    return base / "race-shards"


def folder(base: Path) -> Path:
    """Where the shards lie below a base."""
    return base / "race-shards" / "rewardrate" / "races"


def made(factory) -> Path:
    """The folder to give as `data`."""
    return cache(factory) / "rewardrate" / "races"
