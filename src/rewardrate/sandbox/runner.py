"""`run`: one untrusted script, its own world, its own cores, hard limits, true time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError, did_you_mean
from rewardrate.sandbox import cgroups, cores, residency, users
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.job_template import imports_environment, job_template, masked_paths, mounts
from rewardrate.sandbox.launch import SHARED, WARM_IMPORTS, Init, Launchers
from rewardrate.sandbox.levels import LEVELS, Isolation, Level, try_isolation
from rewardrate.sandbox.limits import Limits
from rewardrate.sandbox.result import Clock, Result, Status
from rewardrate.sandbox.stop import Stop
from rewardrate.sandbox.supervisor import Report, supervise


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
    named in `collect` come back as bytes. The script's environment is a fixed one and `environment`. `level` forces an
    isolation level, `minimum` refuses to run below one. `hide`: host paths that cannot be read although they lie
    inside something that can, such as the data sets that an installed package carries (at every level but "limits").
    `clock` says what is priced: wall, cpu, or warm (seconds without imports). `devices`: device files that it may use.
    The whole process tree is gone when this returns. A failure of the box itself is tried once more, then reported as
    "sandbox-failure".
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
    if level.can.seccomp:  # otherwise which pages are in memory is no secret anyway
        residency.preload(job)
    for attempt in (1, 2):
        try:
            result = _once(
                job=job,
                level=level,
                launchers=launchers,
                imports=imports,
                stop=stop,
                turn=turn or contextlib.nullcontext(),
            )
        except OSError as error:
            result = failure(job, level, str(error))
        if result.status != "sandbox-failure" or attempt == 2:
            return result
    raise AssertionError("unreachable")


def check(job: Job) -> Level:
    """The level a job would run at; refuses what cannot be run, before anything starts."""
    level = choose(job.level, job.minimum)
    cores.check(job.limits.cores)
    mounted, _ = mounts(job, level.can)
    masked_paths(job.hide, mounted)
    return level


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
    can, limits = level.can, job.limits
    with contextlib.ExitStack() as stack:
        with turn:
            owned = stack.enter_context(cores.owned(limits.cores, stop=stop))
        begun = time.monotonic()
        wanted = can.memory_group == "always" or (can.memory_group == "as-root" and os.geteuid() == 0)
        made = cgroups.group(limits.memory_bytes, limits.processes) if wanted else contextlib.nullcontext()
        # The folder is entered last and so removed first: the group need not write its files to the disk.
        with made as group, users.claimed(owned[0]) as user, _work(can.own_mounts, owned[0]) as work:
            if group is None and can.memory_group == "always":
                return failure(job, level, "no control group could be made, though this machine has them")
            config = job_template(job, can, owned, work, user)
            config["groups"], config["cpu_account"] = (group.joins, group.cpu_account) if group else ([], None)
            report = supervise(config, limits.output_bytes, _starter(job, config, launchers, imports), stop)
            over = time.monotonic_ns()
            peak, ran_out = (group.peak_bytes(), group.ran_out()) if group else (0, False)
        stack.close()
    return _result(
        report=report,
        job=job,
        level=level,
        seconds_all=max(0.0, time.monotonic() - begun),
        peak=peak,
        ran_out=ran_out,
        over=over,
    )


def _starter(
    job: Job, config: dict[str, Any], launchers: Launchers, imports: Sequence[str]
) -> Callable[[Sequence[int]], Init]:
    """How this job's init is started."""
    if job.clock != "warm":
        return launchers.cold
    python, environment = job.python or sys.executable, imports_environment(config["environment"])
    return lambda ends: launchers.warm(ends, python, environment, imports)


@contextlib.contextmanager
def _work(own_mounts: bool, slot: int) -> Iterator[str]:
    """The working directory: inside the box, or a folder on disk where there is none."""
    if own_mounts:
        yield "/job"
        return
    sweep(slot)
    folder = tempfile.mkdtemp(prefix=f"rewardrate-{slot}-")
    try:
        yield folder
    finally:
        _remove(folder)


def sweep(slot: int) -> None:
    """Remove working directories that supervisors who were killed have left.

    Whoever owns a core is the only one who may have a directory of that number, so every other one is left over.
    """
    owners = (os.geteuid(), *users.of(slot)) if os.geteuid() == 0 else (os.geteuid(),)
    with os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(f"rewardrate-{slot}-")]
    for path in names:
        with contextlib.suppress(OSError):
            state = os.lstat(path)
            if stat.S_ISDIR(state.st_mode) and state.st_uid in owners:
                _remove(path)


def _remove(folder: str) -> None:
    # Not shutil.rmtree: a script may nest folders deeper than Python recurses, and close them to us. And never
    # through something that is mounted there, which root at the level "limits" could do.
    commands = [["chmod", "-R", "u+rwX", folder], ["rm", "-rf", "--one-file-system", folder]]
    for command in [] if _mounted_below(folder) else commands:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _mounted_below(folder: str) -> bool:
    """Whether anything is mounted in this folder."""
    inside = os.fsencode(os.path.realpath(folder)) + b"/"
    with open("/proc/self/mountinfo", "rb") as file:
        return any(line.split()[4].startswith(inside) for line in file)


def failure(job: Job, level: Level, why: str) -> Result:
    """The sandbox failed; the script is not charged."""
    return Result.failure(why, job.clock or "wall", level.name)


def _result(report: Report, job: Job, level: Level, seconds_all: float, peak: int, ran_out: bool, over: int) -> Result:
    """What became of the script; whatever the report holds, this is a result and never an exception.

    Before the script was started everything that goes wrong is an infrastructure failure ("sandbox-failure", which is
    not charged). After that it is the script's and costs the limit: it must not be able to buy another attempt by
    breaking what measures it.
    """
    try:
        if "seconds" in report.found:
            return _measured(
                report=report, job=job, level=level, seconds_all=seconds_all, peak=peak, ran_out=ran_out, over=over
            )
        why = report.found.get("failure") or f"init ended without a report ({report.stopped or 'died'})"
    except Exception as error:
        report.found["started"] = True
        why = f"its report cannot be read ({type(error).__name__}: {error})"
    limits = job.limits
    if ran_out:  # it took even the init's memory
        return _unmeasured(
            "memory", report, job, level, peak=peak, message=f"it used more than {limits.memory_bytes:,} bytes"
        )
    if report.stopped == "output":
        return _unmeasured(
            "killed", report, job, level, peak=peak, message=f"it printed more than {limits.output_bytes:,} bytes"
        )
    if not report.found.get("started") or report.lost_launcher:
        return failure(job, level, str(why))
    why = f"it ran, but could not be measured: {why}"
    return _unmeasured("killed", report, job, level, peak=peak, message=why)


def _unmeasured(status: Status, report: Report, job: Job, level: Level, *, peak: int, message: str) -> Result:
    """A script that was started and whose end was not observed: by every clock it costs the limit."""
    return Result(
        status=status,
        seconds=job.limits.seconds,
        cpu_seconds=job.limits.seconds,
        peak_memory_bytes=peak,
        stdout=report.out.text(),
        stderr=report.err.text(),
        files={},
        message=message,
        level=level.name,
        clock=job.clock or "wall",
    )


def _measured(
    report: Report, job: Job, level: Level, seconds_all: float, peak: int, ran_out: bool, over: int
) -> Result:
    found, limits = report.found, job.limits
    cpu = found.get("most_cpu_seconds", found["cpu_seconds"]) if job.clock == "cpu" else found["cpu_seconds"]
    numbers = [float(number) for number in (found["seconds"], cpu, found["wait_seconds"], found["foreign_share"])]
    counts = [int(number) for number in (found["peak_memory_bytes"], found["stragglers"])]
    if not all(math.isfinite(number) and 0 <= number < 2**63 for number in numbers + counts):
        raise ValueError(f"not a measurement: {numbers + counts}")
    seconds, cpu, wait, foreign = numbers
    code, number = _ending(found["status"])
    status, message = _verdict(
        verdict=found["verdict"], stopped=report.stopped, code=code, number=number, ran_out=ran_out, limits=limits
    )
    if not found["gone"]:
        status, message = "timeout", "its processes could not be ended"
    return Result(
        status=status,
        seconds=limits.seconds if status == "timeout" else seconds,
        cpu_seconds=cpu,
        peak_memory_bytes=max(peak, counts[0]),
        stdout=report.out.text(),
        stderr=report.err.text(),
        files=report.files,
        message=message,
        exit_code=code,
        signal=number,
        refused={str(name): str(why) for name, why in found["refused"].items()},
        level=level.name,
        wait_seconds=wait,
        foreign_share=foreign,
        overhead_seconds=max(0.0, seconds_all - seconds),
        settle_seconds=max(0.0, (over - found["end"]) / 1e9),
        stragglers=counts[1],
        clock=job.clock or "wall",
    )


def _ending(status: int) -> tuple[int | None, int | None]:
    """Exit code or signal of a wait status."""
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    if status & ~0xFF00:
        raise ValueError(f"not the status of a process that ended: {status}")
    return os.WEXITSTATUS(status), None


def _verdict(
    verdict: str, stopped: str, code: int | None, number: int | None, ran_out: bool, limits: Limits
) -> tuple[Status, str]:
    if stopped == "output":
        return "killed", f"it printed more than {limits.output_bytes:,} bytes"
    if verdict == "memory" or ran_out:  # also when the kernel killed a child and the main process slept on
        return "memory", f"it used more than {limits.memory_bytes:,} bytes"
    if verdict == "timeout" or stopped == "deadline":
        return "timeout", f"it ran longer than {limits.seconds:g} s"
    if verdict == "disk":
        return "killed", f"it wrote more than {limits.disk_bytes:,} bytes, or too many files"
    if number is not None:
        return "killed", f"it was ended by {_signal_name(number)}"
    return ("ok", "") if code == 0 else ("error", f"exit code {code}")


def _signal_name(number: int) -> str:
    """SIGKILL and so on; most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
