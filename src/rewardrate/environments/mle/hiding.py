"""Installed files that would give the answers away: the packages that tasks are made from, and this one.

A task made from a data set that scikit-learn or another package carries could be solved by reading the package. What
a task's config.yaml lists under source.hide is therefore unreadable for scripts, for every shipped task at once, and so
are the task folders and this package (reference scripts, seeds of the splits).
"""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
from collections.abc import Iterable
from pathlib import Path

from rewardrate.environments.mle.folder import read_source, shipped
from rewardrate.environments.mle.task import Task
from rewardrate.errors import InputError

PACKAGE = Path(__file__).parents[2]


def hidden_paths(task: Task, python: str | None = None) -> tuple[Path, ...]:
    """Every path that a script for this task must not read.

    Also those that do not exist here: a node of a cluster may have a package that this machine lacks.
    """
    below = {path for folder in shipped().values() for path in read_source(folder).hide} | set(task.source.hide)
    found = {home / path for home in package_homes(python) for path in below | {"rewardrate"}}
    return tuple(sorted(found | {PACKAGE, *shipped().values(), *task.secrets}))


def missing_paths(task: Task, python: str | None = None) -> list[str]:
    """Paths of the task's own `source.hide` that do not exist on this machine, where its data are made."""
    homes = {*package_homes(python), *(Path(place) for place in sys.path if place)}
    return [path for path in task.source.hide if not any((home / path).exists() for home in homes)]


def require_paths(task: Task) -> None:
    """InputError for a path of `source.hide` that hides nothing: a misspelt one would leave the answers readable.

    Where the package that the data come from is not installed there is nothing to read: prepared data can be used.
    """
    if task.source.package and not _installed(task.source.package):
        return
    for path in missing_paths(task):
        near = _nearest(path)
        remedy = f"did you mean {near!r}?" if near else "correct it, or install the package that the data come from"
        raise InputError(
            "config.yaml: source.hide", path, f"{task.id}: there is no such path below site-packages", remedy
        )


def _installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _nearest(path: str) -> str:
    """An existing path that differs in the spelling of one part."""
    *above, last = Path(path).parts
    for home in package_homes():
        place = home.joinpath(*above)
        names = [entry.name for entry in place.iterdir()] if place.is_dir() else []
        for name in difflib.get_close_matches(last, names, n=1):
            return str(Path(*above, name))
    return ""


def package_homes(python: str | None = None) -> tuple[Path, ...]:
    """The folders that interpreters on this machine import packages from, as far as a script can see them."""
    given = Path(python or sys.executable).absolute()
    prefixes = {given.parent.parent, given.resolve().parent.parent, Path("/usr"), Path("/usr/local")}
    patterns = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages")
    return tuple(sorted(_existing(prefixes, patterns)))


def _existing(prefixes: Iterable[Path], patterns: Iterable[str]) -> set[Path]:
    return {path.resolve() for prefix in prefixes for pattern in patterns for path in prefix.glob(pattern)}
