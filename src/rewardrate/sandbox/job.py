"""One script to be run, with everything it is given: what a pool queues and an executor sends elsewhere."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rewardrate.errors import InputError, nearest
from rewardrate.sandbox.limits import Limits
from rewardrate.sandbox.result import Clock

SCRIPT = "script.py"
GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-modeset", "/dev/nvidia-caps/*")
CLOCKS: tuple[Clock, ...] = get_args(Clock)


@dataclass(frozen=True)
class Job:
    """The arguments of `run`, checked when it is made, so that a queue of a thousand fails at the first."""

    script: str
    limits: Limits = field(default_factory=Limits)
    data: Mapping[str, Path | str] = field(default_factory=dict)
    "Name -> host path, read-only, seen as data/NAME in the working directory."
    files: Mapping[str, bytes] = field(default_factory=dict)
    "Name -> content, put into the working directory."
    collect: Sequence[str] = ()
    "Files that come back as bytes."
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    "Interpreter; our own when none is named."
    level: str | None = None
    minimum: str = "namespaces"
    hide: Sequence[Path | str] = ()
    "Host paths that the script must not read, though they lie inside something it sees."
    clock: Clock | None = None
    "None: the pool's, or the wall."
    devices: Sequence[str] = ()
    "Device files of the host that the script may use, such as those of a GPU (`gpu_devices`)."

    def __post_init__(self) -> None:
        if not isinstance(self.script, str):
            raise InputError("script", type(self.script).__name__, "it must be text: the Python source itself")
        if self.clock is not None:
            check_clock(self.clock)
        _names("data", self.data, data_name)
        _names("files", self.files, _file_name)
        for name, content in self.files.items():
            if not isinstance(content, bytes):
                raise InputError(f"files[{name!r}]", type(content).__name__, "a file's content must be bytes")
        for name, value in self.environment.items():
            if not (_plain(name) and _plain(value)) or not name or "=" in name:
                raise InputError("environment", {name: value}, "names and values must be text without NUL, names no =")
        _paths("collect", self.collect, (str,))
        _paths("hide", self.hide, (str, Path))
        _devices(self.devices)


def gpu_devices() -> tuple[str, ...]:
    """The device files of NVIDIA's driver on this machine; none where there is no GPU."""
    return tuple(sorted(path for pattern in GPU_FILES for path in glob.glob(pattern) if _is_device(path)))


def check_clock(clock: Any) -> None:
    """Refuse a clock that there is not."""
    if clock not in CLOCKS:
        raise InputError("clock", clock, f"it must be one of {', '.join(CLOCKS)}", nearest(str(clock), CLOCKS))


def data_name(name: Any) -> str:
    """What is wrong with the name of data; empty when nothing is."""
    plain = isinstance(name, str) and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return "" if plain and not name.startswith(".") else "a name is made of letters, digits, -, _ and inner dots"


def _file_name(name: Any) -> str:
    if not isinstance(name, str) or "/" in name or "\0" in name or name in ("", ".", ".."):
        return "a name is that of a file in the working directory, without folders"
    return f"{name} is put there already" if name in (SCRIPT, "data") else ""


def _devices(paths: Any) -> None:
    _paths("devices", paths, (str,))
    for path in paths:
        if os.path.normpath(path) != path or not path.startswith("/dev/") or not _is_device(path):
            raise InputError("devices", path, "it must be a character device below /dev", "see gpu_devices()")


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.lstat(path).st_mode)
    except OSError:
        return False


def _names(field_name: str, names: Any, wrong: Any) -> None:
    if not isinstance(names, Mapping):
        raise InputError(field_name, names, "it must map names to what they stand for")
    for name in names:
        if why := wrong(name):
            raise InputError(field_name, name, why)


def _paths(field_name: str, paths: Any, kinds: tuple[type, ...]) -> None:
    if isinstance(paths, (str, bytes, Path)) or not isinstance(paths, Sequence):
        raise InputError(field_name, paths, "it must be a list of paths", f"write [{paths!r}]")
    for path in paths:
        if not isinstance(path, kinds) or not str(path) or "\0" in str(path):
            raise InputError(field_name, path, "it must be a path without NUL")


def _plain(text: Any) -> bool:
    return isinstance(text, str) and "\0" not in text
