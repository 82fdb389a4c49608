"""The CPU time of a script and everything it started, also of what was never waited for."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass

SHORTEST_SECONDS = 0.5  # the kernel counts idle time in hundredths: of less than this a share says nothing


@dataclass(frozen=True)
class Start:
    """The moment of exec, as the process that became the script saw it: its clock, what it had run and waited."""

    monotonic_ns: int
    ran: float
    waited: float


@dataclass(frozen=True)
class Usage:
    """CPU seconds of the whole tree since exec."""

    seconds: float
    "What is accounted to it: by its control group, or else by the processes that were waited for."
    most_seconds: float
    "The most that it can have used. More than `seconds` where work may have gone uncounted."
    foreign_share: float
    "Share of the cores' time that was used by others, as far as can be told."


class Account:
    """Made before the box is entered, because the group's file and the cores' times are not seen from inside.

    Children that their parent does not wait for (it ignores SIGCHLD) leave no trace in `getrusage`. A control group
    counts them. Without one, all work on the box's own cores bounds what the script can have used, unless it never
    started anything: then `getrusage` is exact.
    """

    def __init__(self, group_file: str | None, cores: list[int]) -> None:
        self._file = os.open(group_file, os.O_RDONLY | os.O_CLOEXEC) if group_file else None
        self._stat = os.open("/proc/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._cores = cores

    def begin(self) -> None:
        """Immediately before the script's process is forked, in the process that will wait for it."""
        self._group, self._own = self._group_seconds(), time.process_time()
        self._busy, self._stolen, self._time = *core_seconds(self._cores, self._stat), time.monotonic()

    def end(self, start: Start, *, alone: bool) -> Usage:
        """When everything is reaped. `alone`: the script started no process and no thread."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = usage.ru_utime + usage.ru_stime - start.ran
        group, own = self._group_seconds(), time.process_time()
        busy, stolen = core_seconds(self._cores, self._stat)
        busy, stolen, elapsed = busy - self._busy, stolen - self._stolen, time.monotonic() - self._time
        if group is not None and self._group is not None:
            most = used = max(used, group - self._group - (own - self._own) - start.ran)
        else:
            most = used if alone else max(used, busy - stolen)
        foreign = (busy - used - start.ran) / (len(self._cores) * elapsed) if elapsed >= SHORTEST_SECONDS else 0.0
        return Usage(max(0.0, used), max(0.0, most), max(0.0, foreign))

    def _group_seconds(self) -> float | None:
        if self._file is None:
            return None
        words = os.pread(self._file, 4096, 0).split()
        if words[0] == b"usage_usec":  # cpu.stat of version 2
            return int(words[1]) / 1e6
        return int(words[0]) / 1e9  # cpuacct.usage of version 1


def core_seconds(cores: list[int], stat: int) -> tuple[float, float]:
    """Two counters of these cores, of which differences count: seconds not idle, and those that a hypervisor took.

    `stat` is /proc/stat, open. Not idle is all the time less the idle time, which the kernel measures; its count of
    busy ticks is a sample, and a script that sleeps whenever the tick comes would not be in it.
    """
    idle = stolen = 0
    for line in _read(stat).splitlines():
        words = line.split()
        if words and words[0][:3] == b"cpu" and words[0][3:].isdigit() and int(words[0][3:]) in cores:
            idle += int(words[4]) + int(words[5])
            stolen += int(words[8])
    ticks = os.sysconf("SC_CLK_TCK")
    return len(cores) * time.monotonic() - idle / ticks, stolen / ticks


def _read(file: int) -> bytes:
    """An open file of the kernel's, from its beginning."""
    parts, place = [], 0
    while part := os.pread(file, 1 << 16, place):
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def last_process() -> int:
    """The number that was given last to a process or thread in our namespace (a number in use is not given again)."""
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[-1])
