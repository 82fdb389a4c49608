"""What runs on every machine of a cluster: it keeps the tasks' data and runs jobs in this machine's sandbox."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewardrate import __version__
from rewardrate.environments.mle.prompts import PACKAGES
from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Pool, Result, cores
from rewardrate.scale.shipping import DataStore, Piece

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Homes:
    """Where a machine keeps Python and this package: what is hidden on one must be hidden on the other."""

    places: tuple[Path, ...]

    @classmethod
    def here(cls) -> Homes:
        """Those of this process."""
        homes = (PACKAGE, Path(sys.prefix), Path(sys.base_prefix))
        return cls(homes + tuple(Path(home).resolve() for home in homes))

    def moved(self, path: Path | str, there: Homes) -> set[Path]:
        """The same path as it is called there: as it is, and below every home of theirs that it lies in here."""
        found = {Path(path)}
        for mine, theirs in zip(self.places, there.places, strict=True):
            if Path(path).is_relative_to(mine):
                found.add(theirs / Path(path).relative_to(mine))
        return found


@dataclass(frozen=True)
class About:
    """What a node says of itself."""

    version: str
    cores: int
    packages: Mapping[str, str]
    "Those that scripts are told they have, with their versions; one that is not installed is not there."


def script_packages() -> dict[str, str]:
    """Package -> version, of those that a prompt may name, as scripts find them on this machine."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


class Node:
    """One machine's part of the executor. Calls may come from several threads at once."""

    def __init__(self, settings: Mapping[str, Any], asking: Homes) -> None:
        self._pool = Pool(**settings)
        self._asking, self._here = asking, Homes.here()
        self._store = DataStore()

    def about(self) -> About:
        """Version of the package, how many cores scripts may have here, and what they can import."""
        return About(__version__, len(cores.usable()), script_packages())

    def put(self, name: str, chunk: Sequence[Piece]) -> None:
        """Pieces of the data called `name`."""
        self._store.put(name, chunk)

    def complete(self, name: str) -> None:
        """The data called `name` are complete."""
        self._store.complete(name)

    def run(self, job: Job, data: Mapping[str, str]) -> Result:
        """Run one job; `data` says under which digest its data lie here. Paths to hide are given this machine's names.

        Seconds are measured here, round the script: neither the queue nor the network is in them.
        """
        self._has(job)
        hide = sorted({moved for path in job.hide for moved in self._asking.moved(path, self._here)})
        paths = {name: self._store.path(content) for name, content in data.items()}
        (result,) = self._pool.run([replace(job, data=paths, hide=hide)])
        return result

    @staticmethod
    def _has(job: Job) -> None:
        """Refuse a job whose devices or interpreter are not here: their paths are those of where it was made."""
        host, remedy = socket.gethostname(), "every node needs it under the same path"
        for path in job.devices:
            if not os.path.exists(path):
                raise InputError("devices", path, f"there is no such device on the node {host}", remedy)
        if job.python is not None and not os.access(job.python, os.X_OK):
            raise InputError("python", job.python, f"there is no such interpreter on the node {host}", remedy)

    def close(self) -> None:
        """Give everything back."""
        self._pool.close()
        self._store.close()
