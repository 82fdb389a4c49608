"""`run`: one untrusted script, its own world, its own cores, hard limits, true time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError, did_you_mean
from rewardrate.sandbox import cgroups, cores
from rewardrate.sandbox.levels import LEVELS, Isolation, Level, try_isolation
from rewardrate.sandbox.limits import Limits
from rewardrate.sandbox.result import Result
from rewardrate.sandbox.supervisor import Report, supervise

SLOT_UID = 61000
MODES = {"uid+landlock+seccomp": "uid", "landlock+seccomp": "landlock", "limits": "limits"}
SCRIPT = "script.py"


def run(
    script: str,
    limits: Limits = Limits(),  # noqa: B008
    *,
    data: Mapping[str, Path] | None = None,
    files: Mapping[str, bytes] | None = None,
    collect: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    python: str | None = None,
    level: str | None = None,
    minimum: str = "namespaces",
) -> Result:
    """Run a Python script in a box and say what became of it.

    `data`: name -> host path, read-only, seen as data/NAME in the working directory. `files` are put there too; those
    named in `collect` come back as bytes. The script sees no other environment than ours and
    `environment`. `level` forces an isolation level, `minimum` refuses to run below one. The whole process tree is gone
    when this returns. A failure of the box itself is tried once more, then reported as "sandbox-failure".
    """
    chosen = choose(level, minimum)
    for attempt in (1, 2):
        result = _once(script, limits, chosen, data or {}, files or {}, collect, environment or {}, python)
        if result.status != "sandbox-failure" or attempt == 2:
            return result
    raise AssertionError("unreachable")


@lru_cache(maxsize=1)
def isolation() -> Isolation:
    """What this machine can do, tried once per process."""
    return try_isolation()


def choose(level: str | None, minimum: str) -> Level:
    """The level to run at: the strongest that works, or the one asked for; refused below `minimum`."""
    names = [known.name for known in LEVELS]
    for field, name in (("level", level), ("minimum", minimum)):
        if name is not None and name not in names:
            raise InputError(field, name, "there is no such level", did_you_mean(name, names))
    best = isolation().level
    wanted = best if level is None else LEVELS[names.index(level)]
    if names.index(wanted.name) < names.index(best.name):
        raise InputError("level", wanted.name, f"this machine allows {best.name} at most", best.remedy)
    if names.index(wanted.name) > names.index(minimum):
        remedy = f"{best.remedy}; or accept less with minimum={wanted.name!r}"
        raise InputError(
            "minimum", minimum, f"this run would have {wanted.name} only, which lacks {wanted.lacks}", remedy
        )
    return wanted


def _once(
    script: str,
    limits: Limits,
    level: Level,
    data: Mapping[str, Path],
    files: Mapping[str, bytes],
    collect: Sequence[str],
    environment: Mapping[str, str],
    python: str | None,
) -> Result:
    mode = MODES.get(level.name, "namespaces")
    with cores.owned(limits.cores) as owned, _work(mode, owned[0]) as work:
        begun = time.monotonic()
        wanted = level.name == "namespaces+cgroup" or (mode == "uid" and os.geteuid() == 0)
        with cgroups.group(limits.memory_bytes, limits.processes) if wanted else contextlib.nullcontext() as group:
            config = _config(mode, limits, owned, work, data, environment, python or sys.executable)
            config["files"] = {name: content.hex() for name, content in {**files, SCRIPT: script.encode()}.items()}
            config["collect"] = list(collect)
            config["groups"] = group.joins if group else []
            report = supervise(config, limits.output_bytes)
            over = time.monotonic_ns()
            peak, ran_out = (group.peak_bytes(), group.ran_out()) if group else (0, False)
    return _result(report, limits, level, max(0.0, time.monotonic() - begun), peak, ran_out, over)


def _config(
    mode: str,
    limits: Limits,
    owned: list[int],
    work: str,
    data: Mapping[str, Path],
    environment: Mapping[str, str],
    python: str,
) -> dict[str, Any]:
    boxed = mode == "namespaces"
    binds, places = python_binds(python), {}
    for name, path in data.items():
        if not name.replace("-", "").replace("_", "").isalnum():
            raise InputError("data", name, "a name is made of letters, digits, - and _")
        source = str(Path(path).resolve())
        if not Path(source).exists():
            raise InputError(f"data[{name!r}]", str(path), "there is no such file or folder")
        places[name] = f"/data/{name}" if boxed else source
        binds.append((source, places[name]))
    count = str(len(owned))
    threads = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "LOKY_MAX_CPU_COUNT",
    )
    ours = {"PATH": "/usr/bin:/bin", "HOME": work, "TMPDIR": "/tmp" if boxed else work, "LANG": "C.UTF-8"}
    ours |= {"PYTHONDONTWRITEBYTECODE": "1"} | dict.fromkeys(threads, count)
    return {
        "mode": mode,
        "binds": binds,
        "data": places,
        "links": [(path, "usr" + path) for path in ("/lib", "/lib64", "/bin", "/sbin") if os.path.islink(path)],
        "work": work,
        "cores": owned,
        "slot_uid": SLOT_UID + owned[0],
        "drop_uid": os.geteuid() == 0 and mode in ("namespaces", "uid"),
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "disk_bytes": limits.disk_bytes,
        "file_bytes": limits.file_bytes,
        "arguments": [python, SCRIPT],
        "environment": {**ours, **environment},
    }


def python_binds(python: str) -> list[tuple[str, str]]:
    """What an interpreter needs to be seen, read-only: the system's libraries, its own prefix, its environment."""
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


@contextlib.contextmanager
def _work(mode: str, slot: int) -> Iterator[str]:
    """The working directory: inside the box, or a folder on disk where there is none."""
    if mode == "namespaces":
        yield "/job"
        return
    folder = tempfile.mkdtemp(prefix=f"rewardrate-{slot}-")
    try:
        yield folder
    finally:
        # Not shutil.rmtree: a script may nest folders deeper than Python recurses, and close them to us.
        for command in (["chmod", "-R", "u+rwX", folder], ["rm", "-rf", "--one-file-system", folder]):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _result(
    report: Report, limits: Limits, level: Level, seconds_all: float, peak: int, ran_out: bool, over: int
) -> Result:
    found = report.found
    if "seconds" not in found:
        why = (
            found.get("failure")
            or report.launcher.strip()
            or f"init ended without a report ({report.stopped or 'died'})"
        )
        return Result(
            "sandbox-failure", 0.0, 0.0, 0, report.out.text(), report.err.text(), {}, message=why, level=level.name
        )
    code, number = _ending(found["status"])
    status, message = _verdict(found["verdict"], report.stopped, code, number, ran_out, limits)
    if not found["gone"]:
        status, message = "sandbox-failure", "processes of the script could not be ended"
    seconds = limits.seconds if status == "timeout" else found["seconds"]
    return Result(
        status,  # type: ignore[arg-type]
        seconds,
        found["cpu_seconds"],
        max(peak, found["peak_memory_bytes"]),
        report.out.text(),
        report.err.text(),
        report.files,
        message,
        code,
        number,
        found["refused"],
        level.name,
        found["wait_seconds"],
        found["foreign_share"],
        max(0.0, seconds_all - found["seconds"]),
        max(0.0, (over - found["end"]) / 1e9),
        found["stragglers"],
    )


def _ending(status: int) -> tuple[int | None, int | None]:
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


def _verdict(
    verdict: str, stopped: str, code: int | None, number: int | None, ran_out: bool, limits: Limits
) -> tuple[str, str]:
    if stopped == "output":
        return "killed", f"it printed more than {limits.output_bytes:,} bytes"
    if verdict == "memory" or ran_out:  # also when the kernel killed a child and the main process slept on
        return "memory", f"it used more than {limits.memory_bytes:,} bytes"
    if verdict == "timeout" or stopped == "deadline":
        return "timeout", f"it ran longer than {limits.seconds:g} s"
    if verdict == "disk":
        return "killed", f"it wrote more than {limits.disk_bytes:,} bytes, or too many files"
    if number is not None:
        return "killed", f"it was ended by {signal.Signals(number).name}"
    return ("ok", "") if code == 0 else ("error", f"exit code {code}")
