"""MLE-Bench as an installed package: found, imported once in a folder of our own, and listened to.

It is not on the package index, so it cannot be a dependency: it is used if it is there (docs/mle-bench.md). Importing
it creates a folder `cache` in the current directory and sets up the root logger; neither is left behind here.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError

INSTALL = (
    "git clone https://github.com/openai/mle-bench && cd mle-bench && git lfs pull && pip install --no-deps -e . "
    "&& pip install 'pandas<4' pyyaml py7zr appdirs diskcache tenacity tqdm pillow 'scikit-learn<1.11'"
)
SKLEARN_BREAKS = (1, 11)
PIP_NAMES = {"PIL": "pillow", "sklearn": "'scikit-learn<1.11'", "yaml": "pyyaml"}
LOGGERS = ("mlebench.data", "mlebench.grade", "mlebench.grade_helpers", "mlebench.utils")

LOCK = threading.RLock()  # the current directory, the loggers and the warning filters belong to the whole process


@dataclass(frozen=True)
class Package:
    """An installed MLE-Bench."""

    folder: Path
    "The folder of the package `mlebench` itself."
    version: str


@dataclass(frozen=True)
class Modules:
    """The parts of MLE-Bench that are used."""

    registry: Any
    data: Any
    grade: Any
    utils: Any


def find_mlebench() -> Package | None:
    """The installed MLE-Bench, found without importing it; None if there is none."""
    try:
        spec = importlib.util.find_spec("mlebench")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:  # no origin: a stray folder of that name, not the package
        return None
    try:
        version = importlib.metadata.version("mlebench")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return Package(Path(spec.origin).resolve().parent, version)


def sklearn_too_new() -> bool:
    """Whether scikit-learn is one whose log_loss no longer takes the arguments of MLE-Bench's log-loss graders."""
    try:
        numbers = re.findall(r"\d+", importlib.metadata.version("scikit-learn"))
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(map(int, numbers[:2])) >= SKLEARN_BREAKS


def competition(id: str, data: Path, leaderboard: Path | None = None) -> Any:
    """MLE-Bench's own object for a task; InputError when its grader cannot be imported."""
    package = require_package()
    return _competition_of(package.folder, id, data, leaderboard)


@functools.cache
def _competition_of(package: Path, id: str, data: Path, leaderboard: Path | None) -> Any:
    parts = _modules_of(package)
    if not (package / "competitions" / id / "config.yaml").is_file():
        raise InputError("task", id, f"the MLE-Bench in {package} does not have it", "install a newer MLE-Bench")
    with LOCK, _logging_kept(), _quiet():
        try:
            found = parts.registry.registry.set_data_dir(data).get_competition(id)
        except (Exception, SystemExit) as error:
            rule = f"MLE-Bench cannot load it ({type(error).__name__}: {error})"
            raise InputError("task", id, rule, _import_remedy(error)) from error
    return found if leaderboard is None else dataclasses.replace(found, leaderboard=leaderboard)


def modules() -> Modules:
    """MLE-Bench, imported. InputError with the remedy when it is not there or cannot be imported."""
    return _modules_of(require_package().folder)


def require_package() -> Package:
    """The installed MLE-Bench; InputError with the commands that install it."""
    package = find_mlebench()
    if package is None:
        raise InputError("mlebench", "not installed", "the package of MLE-Bench cannot be found", INSTALL)
    return package


@functools.cache
def _modules_of(package: Path) -> Modules:
    """Import MLE-Bench, once, in a folder of our own."""
    names = ("registry", "data", "grade", "utils")
    with LOCK, _own_folder(), _logging_kept(), _quiet():
        try:
            return Modules(*(importlib.import_module(f"mlebench.{name}") for name in names))
        except (Exception, SystemExit) as error:
            rule = f"MLE-Bench cannot be imported ({type(error).__name__}: {error})"
            raise InputError("mlebench", str(package), rule, _import_remedy(error)) from error


def _import_remedy(error: BaseException) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    return f"pip install {PIP_NAMES.get(name, name)}" if name else "install MLE-Bench again (docs/mle-bench.md)"


@contextlib.contextmanager
def _own_folder() -> Iterator[None]:
    """In a private folder, which goes when the process ends; the current directory comes back, also after an error.

    Relative entries of sys.path keep their meaning.
    """
    try:
        here = os.getcwd()
    except OSError as error:
        raise InputError("current directory", str(error), "it must exist", "start from a folder that does") from None
    saved = list(sys.path)
    sys.path[:] = [os.path.join(here, entry) if not os.path.isabs(entry) else entry for entry in saved]
    absolute = list(sys.path)
    os.chdir(_private_folder(os.getpid()))
    try:
        yield
    finally:
        os.chdir(here)
        if sys.path == absolute:
            sys.path[:] = saved


@functools.cache
def _private_folder(process: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-mlebench-"))

    def remove() -> None:
        if os.getpid() == process:  # not in a child that inherited this
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@contextlib.contextmanager
def _logging_kept() -> Iterator[None]:
    """The root logger as it was: MLE-Bench's modules call basicConfig when they are imported."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Deprecations that MLE-Bench's imports raise are its own business, not errors of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """What MLE-Bench logs in this thread, as lines, kept off the user's terminal."""
    said: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())
        return False

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(keep)
    try:
        yield said
    finally:
        for logger in loggers:
            logger.removeFilter(keep)
