"""Installed files that would give the answers away: the packages that tasks are made from, and this one.

A task made from a data set that scikit-learn or another package carries could be solved by reading the package. What
a task's config.yaml lists under source.hide is therefore unreadable for scripts, for every shipped task at once, and so
are the task folders and this package (reference scripts, seeds of the splits).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rewardrate.environments.mle.folder import read_source, shipped
from rewardrate.environments.mle.task import Task

PACKAGE = Path(__file__).parents[2]


def hidden_paths(task: Task, python: str | None = None) -> tuple[Path, ...]:
    """Every path that a script for this task must not read.

    Also those that do not exist here: a node of a cluster may have a package that this machine lacks.
    """
    below = {path for folder in shipped().values() for path in read_source(folder).hide} | set(task.source.hide)
    found = {home / path for home in package_homes(python) for path in below | {"rewardrate"}}
    return tuple(sorted(found | {PACKAGE, *shipped().values(), *task.secrets}))


def package_homes(python: str | None = None) -> tuple[Path, ...]:
    """The folders that interpreters on this machine import packages from, as far as a script can see them."""
    given = Path(python or sys.executable).absolute()
    prefixes = {given.parent.parent, given.resolve().parent.parent, Path("/usr"), Path("/usr/local")}
    patterns = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages")
    return tuple(sorted(_existing(prefixes, patterns)))


def _existing(prefixes: Iterable[Path], patterns: Iterable[str]) -> set[Path]:
    return {path.resolve() for prefix in prefixes for pattern in patterns for path in prefix.glob(pattern)}
