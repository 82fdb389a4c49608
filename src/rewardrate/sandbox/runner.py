"""`run`: one untrusted script, its own world, its own cores, hard limits, true time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError, did_you_mean
from rewardrate.sandbox import cgroups, cores
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.launch import SHARED, WARM_IMPORTS, Init, Launchers
from rewardrate.sandbox.levels import LEVELS, Isolation, Level, try_isolation
from rewardrate.sandbox.limits import Limits
from rewardrate.sandbox.orders import hidden, imports_environment, orders, shown
from rewardrate.sandbox.result import Clock, Result
from rewardrate.sandbox.stop import Stop
from rewardrate.sandbox.supervisor import Report, supervise

MODES = {"uid+landlock+seccomp": "uid", "landlock+seccomp": "landlock", "limits": "limits"}


def run(
    script: str,
    limits: Limits = Limits(),  # noqa: B008
    *,
    data: Mapping[str, Path | str] | None = None,
    files: Mapping[str, bytes] | None = None,
    collect: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    python: str | None = None,
    level: str | None = None,
    minimum: str = "namespaces",
    hide: Sequence[Path | str] = (),
    clock: Clock = "wall",
    devices: Sequence[str] = (),
) -> Result:
    """Run a Python script in a box and say what became of it.

    `data`: name -> host path, read-only, seen as data/NAME in the working directory. `files` are put there too; those
    named in `collect` come back as bytes. The script sees no other environment than ours and `environment`. `level`
    forces an isolation level, `minimum` refuses to run below one. `hide`: host paths that cannot be read although they
    lie inside something that is shown, such as the data sets that an installed package carries (at every level but
    "limits"). `clock` says what is priced: wall, cpu, or warm (seconds without imports). `devices`: device
    files that it may use. The whole process tree is gone when this returns. A failure of the box itself is tried once
    more, then reported as "sandbox-failure".
    """
    given = (data or {}, files or {}, collect, environment or {}, python, level, minimum, hide, clock, devices)
    return run_job(Job(script, limits, *given))


def run_job(
    job: Job,
    *,
    launchers: Launchers = SHARED,
    imports: Sequence[str] = WARM_IMPORTS,
    stop: Stop | None = None,
    turn: contextlib.AbstractContextManager[Any] | None = None,
) -> Result:
    """`run` for a job. `turn` is held while waiting for cores, so that a queue keeps its order."""
    level = check(job)
    for attempt in (1, 2):
        result = _once(job, level, launchers, imports, stop, turn or contextlib.nullcontext())
        if result.status != "sandbox-failure" or attempt == 2:
            return result
    raise AssertionError("unreachable")


def check(job: Job) -> Level:
    """The level a job would run at; refuses what cannot be run, before anything starts."""
    level = choose(job.level, job.minimum)
    cores.check(job.limits.cores)
    binds, _ = shown(job, mode_of(level))
    hidden(job.hide, binds)
    return level


def mode_of(level: Level) -> str:
    """How the init isolates at this level."""
    return MODES.get(level.name, "namespaces")


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
    job: Job,
    level: Level,
    launchers: Launchers,
    imports: Sequence[str],
    stop: Stop | None,
    turn: contextlib.AbstractContextManager[Any],
) -> Result:
    mode, limits = mode_of(level), job.limits
    with contextlib.ExitStack() as stack:
        with turn:
            owned = stack.enter_context(cores.owned(limits.cores, stop=stop))
        begun = time.monotonic()
        work = stack.enter_context(_work(mode, owned[0]))
        wanted = level.name == "namespaces+cgroup" or (mode == "uid" and os.geteuid() == 0)
        with cgroups.group(limits.memory_bytes, limits.processes) if wanted else contextlib.nullcontext() as group:
            if group is None and level.name == "namespaces+cgroup":
                return _failure(job, level, "no control group could be made, though this machine has them")
            config = orders(job, mode, owned, work)
            config["groups"] = group.joins if group else []
            try:
                report = supervise(config, limits.output_bytes, _starter(job, config, launchers, imports), stop)
            except OSError as error:
                return _failure(job, level, str(error))
            over = time.monotonic_ns()
            peak, ran_out = (group.peak_bytes(), group.ran_out()) if group else (0, False)
        stack.close()
    return _result(report, job, level, max(0.0, time.monotonic() - begun), peak, ran_out, over)


def _starter(
    job: Job, config: dict[str, Any], launchers: Launchers, imports: Sequence[str]
) -> Callable[[Sequence[int]], Init]:
    """How this job's init is started."""
    if job.clock != "warm":
        return launchers.cold
    python, environment = job.python or sys.executable, imports_environment(config["environment"])
    return lambda ends: launchers.warm(ends, python, environment, imports)


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
        # Not shutil.rmtree: a script may nest folders deeper than Python recurses, and close them to us. And never
        # through something that is mounted there, which root at the level "limits" could do.
        commands = [["chmod", "-R", "u+rwX", folder], ["rm", "-rf", "--one-file-system", folder]]
        for command in [] if _mounted_below(folder) else commands:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _mounted_below(folder: str) -> bool:
    """Whether anything is mounted in this folder."""
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4].startswith(os.path.realpath(folder) + "/") for line in file)


def _failure(job: Job, level: Level, why: str) -> Result:
    clock = job.clock or "wall"
    return Result("sandbox-failure", 0.0, 0.0, 0, "", "", {}, message=why, level=level.name, clock=clock)


def _result(report: Report, job: Job, level: Level, seconds_all: float, peak: int, ran_out: bool, over: int) -> Result:
    found, limits = report.found, job.limits
    if "seconds" not in found and ran_out:  # it took even the init's memory: that is no way out of being charged
        message = f"it used more than {limits.memory_bytes:,} bytes"
        streams: tuple[str, str, dict[str, bytes]] = (report.out.text(), report.err.text(), {})
        return Result("memory", seconds_all, 0.0, peak, *streams, message, level=level.name, clock=job.clock or "wall")
    if "seconds" not in found:
        why = found.get("failure") or f"init ended without a report ({report.stopped or 'died'})"
        return _failure(job, level, why)
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
        job.clock or "wall",
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
