"""What an init is told about a job: the paths it mounts, the paths it masks, what the script may use."""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError
from rewardrate.sandbox.box.capabilities import Capabilities
from rewardrate.sandbox.job import SCRIPT, Job

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
Mounts = list[tuple[str, str]]


def job_template(job: Job, can: Capabilities, owned: list[int], work: str, user: int) -> dict[str, Any]:
    """All of it as plain data; what cannot be carried out is refused here, before anything starts."""
    limits, python = job.limits, job.python or sys.executable
    mounted, places = mounts(job, can)
    files = {**job.files, SCRIPT: job.script.encode("utf-8", "surrogatepass")}
    return {
        "can": dataclasses.asdict(can),
        "mounts": mounted,
        "masked_paths": masked_paths(job.hide, mounted),
        "data": places,
        "links": [(path, "usr" + path) for path in ("/lib", "/lib64", "/bin", "/sbin") if os.path.islink(path)],
        "work": work,
        "cores": owned,
        "slot_uid": user,
        "drop_uid": drops_uid(can),
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "disk_bytes": limits.disk_bytes,
        "file_bytes": limits.file_bytes,
        "arguments": [python, SCRIPT],
        "environment": environment(job, len(owned), work, "/tmp" if can.own_mounts else work),
        "files": {name: content.hex() for name, content in files.items()},
        "collect": list(job.collect),
        "warm": job.clock == "warm",
        "devices": list(job.devices),
    }


def drops_uid(can: Capabilities) -> bool:
    """Whether the script runs as another user than the supervisor."""
    return os.geteuid() == 0 and can.slot_user


def environment(job: Job, cores: int, work: str, temporary: str) -> dict[str, str]:
    """Every variable that the script sees."""
    fixed = {"PATH": "/usr/bin:/bin", "HOME": work, "TMPDIR": temporary, "LANG": "C.UTF-8"}
    return {**fixed, "PYTHONDONTWRITEBYTECODE": "1", **dict.fromkeys(THREADS, str(cores)), **job.environment}


def mounts(job: Job, can: Capabilities) -> tuple[Mounts, dict[str, str]]:
    """(source, target in the box) of everything that the script can read, and the target of each piece of data."""
    python = job.python or sys.executable
    found, places = python_mounts(python), {}
    # Without a file tree of its own another user needs every folder above the interpreter and the data opened.
    whole = can.slot_user and not can.own_mounts
    if whole:
        _open_to_all("python", python, [os.path.abspath(python), os.path.realpath(python)], whole=True)
    for name, path in job.data.items():
        source = os.path.realpath(path)
        if not os.path.exists(source):
            raise InputError(f"data[{name!r}]", str(path), "there is no such file or folder")
        if drops_uid(can):
            _open_to_all(f"data[{name!r}]", str(path), [source], whole=whole)
        places[name] = f"/data/{name}" if can.own_mounts else source
        found.append((source, places[name]))
    return found, places


def python_mounts(python: str) -> Mounts:
    """What an interpreter has to read: the system's libraries, its own prefix, its environment."""
    if not os.access(python, os.X_OK):
        raise InputError("python", python, "there is no interpreter that can be run")
    places = ["/usr", *(path for path in ("/lib", "/lib64", "/bin") if not os.path.islink(path))]
    real, given = Path(python).resolve(), Path(os.path.abspath(python))
    for prefix in (real.parent.parent, given.parent.parent):
        if prefix.is_relative_to("/usr"):
            continue
        own = (prefix / "pyvenv.cfg").exists() or any((prefix / "lib").glob("python3*"))
        if not own or prefix in (Path("/"), Path.home()):  # never show the script a home or the whole disk
            rule, remedy = f"{prefix} is not a folder of Python's own", "use one from a virtual environment"
            raise InputError("python", python, rule, remedy)
        places.append(str(prefix))
    places += ["/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"]
    return [(place, place) for place in dict.fromkeys(places) if os.path.exists(place)]


def masked_paths(hide: Sequence[Path | str], mounted: Iterable[tuple[str, str]]) -> list[str]:
    """Paths in the box that have to be masked so that nothing of `hide` can be read.

    A path that does not exist, or lies in no mount, needs no mask. A path that holds a mount as a whole cannot be
    hidden and is refused. Links are followed: what they point to is hidden. A second hard link
    of a hidden file, elsewhere in a mount, is another path and has to be named too.
    """
    found: dict[str, None] = {}
    for path in hide:
        real = os.path.realpath(path)
        if not os.path.exists(real):
            continue
        for source, place in mounted:
            inside = os.path.relpath(real, os.path.realpath(source))
            if inside == "." or set(inside.split("/")) == {".."}:
                rule = f"it holds {source}, which the script is shown"
                raise InputError("hide", str(path), rule, "hide the parts of it that must not be read")
            if not inside.startswith("../"):
                found[os.path.join(place, inside)] = None
    return list(found)


def _open_to_all(field: str, value: str, paths: Iterable[str], *, whole: bool) -> None:
    """Refuse what a script that runs as another user could not reach: a closed file or (`whole`) folder above it."""
    for path in paths:
        state = os.stat(path)
        need = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(state.st_mode) else 0)
        if state.st_mode & need != need:
            raise InputError(field, value, "it is closed to other users", f"open it: chmod -R o+rX {path}")
        for above in Path(path).parents if whole else ():
            if not above.stat().st_mode & stat.S_IXOTH:
                rule = f"it lies below {above}, which is closed to other users, and at this level it is run as one"
                raise InputError(field, value, rule, f"move it elsewhere, or open the folder: chmod o+x {above}")


def imports_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The part of a script's environment that is the same for every run, so that a warm server can have it too."""
    return {name: value for name, value in given.items() if name not in ("HOME", "TMPDIR")}
