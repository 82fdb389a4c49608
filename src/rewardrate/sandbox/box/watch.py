"""From exec to exit: the clock, the deadline, and the limits that have to be looked at."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
from typing import Any

from rewardrate.sandbox.box import tree

TICK_SECONDS = 0.1
FILES = 20_000  # most files in a working directory on disk (a memory file system counts its own)


class Watch:
    """Waits for the main process; ends at its exit, the deadline, a limit, or a word from the supervisor.

    `before`: seconds that it had run and waited when the clock started, which are not its own.
    """

    def __init__(self, config: dict[str, Any], main: int, control: int, before: tuple[float, float]) -> None:
        self.config, self.main, self._before = config, main, before
        self.verdict = ""
        self.status: int | None = None
        self.orphans = self.peak = 0
        self.wait_seconds = 0.0
        self.polled = config["mode"] in ("uid", "landlock", "limits") or not config["groups"]
        self._bell, ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._control = control
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._poll.register(control, select.POLLIN | select.POLLHUP)

    def run(self) -> dict[str, Any]:
        """Follow the script to its end, end everything it started, and say what was measured."""
        cores = self.config["cores"]
        start, busy = time.monotonic_ns(), tree.busy_ticks(cores)
        deadline = start + int(self.config["seconds"] * 1e9)
        self._reap()
        while self.status is None and not self.verdict:
            left = deadline - time.monotonic_ns()
            if left <= 0:
                self.verdict = "timeout"
                break
            events = self._poll.poll(max(1, min(int(TICK_SECONDS * 1000) if self.polled else 1000, left // 1_000_000)))
            if any(place == self._control for place, _ in events):
                self.verdict = "stopped"
                break
            self._listen(bool(events))
        end = self._exit_time if self.status is not None else time.monotonic_ns()
        if self.status is None:
            os.kill(self.main, signal.SIGKILL)
            self.wait_seconds = max(0.0, tree.schedule(self.main)[1] - self._before[1])
            _, self.status = os.waitpid(self.main, 0)
        else:
            self.verdict = ""
        return self._report(start, end, busy, cores)

    def _report(self, start: int, end: int, busy: int, cores: list[int]) -> dict[str, Any]:
        busy = tree.busy_ticks(cores) - busy
        tree.kill_all(self.config)
        left, gone = tree.reap_all(self.config)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used, seconds = max(0.0, usage.ru_utime + usage.ru_stime - self._before[0]), (end - start) / 1e9
        foreign = max(0.0, busy / os.sysconf("SC_CLK_TCK") - used) / (len(cores) * seconds) if seconds >= 0.5 else 0.0
        return {
            "verdict": self.verdict,
            "status": self.status,
            "seconds": seconds,
            "end": end,
            "cpu_seconds": used,
            "peak_memory_bytes": max(self.peak, usage.ru_maxrss * 1024),
            "wait_seconds": self.wait_seconds,
            "foreign_share": foreign,
            "stragglers": left + self.orphans,
            "gone": gone,
        }

    def _listen(self, rang: bool) -> None:
        if rang:
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 4096)
            self._reap()
        if self.status is None and self.polled:
            self._look()

    def _reap(self) -> None:
        """Reap everything that has ended; of the main process remember when and how."""
        try:
            ended = (
                os.waitid(os.P_PID, self.main, os.WEXITED | os.WNOHANG | os.WNOWAIT) if self.status is None else None
            )
        except ChildProcessError:
            ended = None
        if ended is not None:
            self._exit_time = time.monotonic_ns()
            self.wait_seconds = max(0.0, tree.schedule(self.main)[1] - self._before[1])
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process == self.main:
                if ended is None:
                    self._exit_time = time.monotonic_ns()
                self.status = status
            else:
                self.orphans += 1

    def _look(self) -> None:
        """Memory and disk, where no group or file system counts them for us."""
        config, kept = self.config, 0
        if config["mode"] == "namespaces":
            kept = sum(_used(path) for path in ("/job", "/tmp", "/dev/shm"))
        elif config["mode"] == "uid":
            kept = _shared_memory(config["slot_uid"])
        used = tree.memory_bytes() + kept
        if used > config["memory_bytes"]:
            used = tree.shared_memory_bytes() + kept
        self.peak = max(self.peak, used)
        if used > config["memory_bytes"]:
            self.verdict = "memory"
        elif config["mode"] != "namespaces" and _too_much(config["work"], config["disk_bytes"]):
            self.verdict = "disk"


def _used(path: str) -> int:
    system = os.statvfs(path)
    return (system.f_blocks - system.f_bfree) * system.f_frsize


def _shared_memory(user: int) -> int:
    total = 0
    for entry in os.scandir("/dev/shm"):
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        total += state.st_blocks * 512 if state.st_uid == user else 0
    return total


def _too_much(folder: str, limit: int) -> bool:
    """Whether a folder on disk holds more bytes or files than allowed; stops counting as soon as it does."""
    size = count = 0
    waiting = [folder]
    while waiting:
        try:
            entries = os.scandir(waiting.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                count += 1
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                except OSError:
                    pass
                if size > limit or count > FILES:
                    return True
    return False
