"""From exec to exit: the clock, the deadline, and the limits that have to be looked at."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from rewardrate.sandbox.box import kernel, leftovers, tree, uncounted
from rewardrate.sandbox.box.account import Account, Start, last_process

TICK_MILLISECONDS, GROUP_TICK_MILLISECONDS = 100, 250  # between looks at memory, without and with a control group
MAPPED_EVERY = 10  # ticks between looks at what takes long: what is only mapped, record locks
SOCKETS_SHARE = 4  # the buffers of sockets may keep the fourth part of the memory beside what a group counts
STEP_BYTES = 3000  # of a path, that the kernel is given at once
FILES = 20_000  # most files in a working directory on disk (a memory file system counts its own)


class Watch:
    """Waits for the main process; ends at its exit, the deadline, a limit, or a word from the supervisor."""

    def __init__(self, config: dict[str, Any], main: int, control: int, start: Start, account: Account) -> None:
        self.config, self.main, self._start, self._account = config, main, start, account
        self.verdict = ""
        self.ended = False
        self.status = int(signal.SIGKILL)  # of a main process that could not be reaped
        self.orphans = self.peak = self._looks = self._locks = 0
        self.polled = not config["can"].own_mounts or not config["groups"]
        self._wakeup, signalled = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._control = control
        self._poll = select.poll()
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(control, select.POLLIN | select.POLLHUP)

    def run(self, on_progress: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Follow the script to its end, end everything it started, and say what was measured.

        `on_progress` is called, once a second at most, while processes are ended.
        """
        deadline = self._start.monotonic_ns + int(self.config["seconds"] * 1e9)
        self._reap(deadline)
        while not self.ended and not self.verdict:
            left = deadline - time.monotonic_ns()
            if left <= 0:
                self.verdict = "timeout"
                break
            tick = TICK_MILLISECONDS if self.polled else GROUP_TICK_MILLISECONDS
            events = self._poll.poll(max(1, min(tick, left // 1_000_000)))
            if any(place == self._control for place, _ in events):
                self.verdict = "stopped"
                break
            self._listen(bool(events), deadline)
        return self._end(on_progress)

    def _end(self, on_progress: Callable[[], None]) -> dict[str, Any]:
        """Kill, then look at the clock: nothing of the box may work on in a moment that is not charged.

        Who was alive when the main process was found dead has to be reaped by us now, or has a parent of which that is
        true. So if the main process alone is left to reap, nothing worked on since; and if another is, the
        script is charged until the last one is gone.
        """
        noticed, alone = time.monotonic_ns(), last_process() == self.main
        tree.kill_all(self.config)
        ran, waited = tree.schedule(self.main)
        last_report = time.monotonic()

        def reaped(process: int, status: int) -> None:
            nonlocal last_report
            if process == self.main:
                self.status = status
            if time.monotonic() - last_report > 1.0:
                last_report = time.monotonic()
                on_progress()

        left, gone = tree.reap_all(self.config, on_reaped=reaped)
        end = time.monotonic_ns() if left > 1 and self.ended else noticed
        usage, seconds = self._account.end(self._start, alone=alone), (end - self._start.monotonic_ns) / 1e9
        if self.ended:
            self.verdict = "timeout" if seconds > self.config["seconds"] else ""
        # Waiting behind one's own other threads and processes is not waiting for others.
        behind_others = waited - self._start.waited - max(0.0, usage.seconds - (ran - self._start.ran))
        return {
            "verdict": self.verdict,
            "status": self.status,
            "seconds": seconds,
            "end": noticed,
            "cpu_seconds": usage.seconds,
            "most_cpu_seconds": usage.most_seconds,
            "peak_memory_bytes": max(self.peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024),
            "wait_seconds": max(0.0, behind_others),
            "foreign_share": usage.foreign_share,
            "stragglers": max(0, left - 1) + self.orphans,
            "gone": gone,
        }

    def _listen(self, woken: bool, deadline: int) -> None:
        if woken:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
            self._reap(deadline)
        if not self.ended and self.polled:
            self._look()
        elif not self.ended and uncounted.socket_bytes() > self.config["memory_bytes"] // SOCKETS_SHARE:
            # Control groups of version 1 do not count the buffers of TCP and UDP, and none those of netlink.
            self.verdict = "memory"

    def _reap(self, deadline: int) -> None:
        """Reap what has ended, but never the main process: that can take the kernel a second, and the rest must be
        killed first.
        """
        while time.monotonic_ns() < deadline:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            if ended.si_pid == self.main:
                self.ended = True
                return
            os.waitpid(ended.si_pid, 0)
            self.orphans += 1

    def _look(self) -> None:
        """Memory and disk, where no group or file system counts them for us."""
        config, can, kept, processes = self.config, self.config["can"], 0, tree.descendants(os.getpid())
        shown = tree.visible(processes)
        unnamed: dict[int, int] = {}
        if not can.own_mounts:
            # A process with large libraries has thousands of mappings, and looking at them takes milliseconds.
            unnamed = uncounted.unlinked_bytes(shown, mapped=self._looks % MAPPED_EVERY == 0)
        self._looks += 1
        if can.own_mounts:
            kept = sum(uncounted.in_memory_bytes(path) for path in ("/job", "/tmp", "/dev/shm"))
        elif can.host_shared_memory:
            kept = leftovers.bytes_of(config["slot_uid"])
            kept += uncounted.on_device(unnamed, leftovers.SHARED_MEMORY)
        most, rough, exact = config["memory_bytes"], tree.memory_bytes(), functools.cache(tree.shared_memory_bytes)
        used = kept + (rough if rough + kept <= most else exact())
        if used <= most and not config["groups"]:  # last, for many descriptors take long to look at
            if self._looks % MAPPED_EVERY == 0:
                self._locks = uncounted.lock_bytes(processes)
            kept += uncounted.kernel_bytes(shown, own_network=can.own_network) + self._locks
            used = kept + (rough if rough + kept <= most else exact())
        self.peak = max(self.peak, used)
        if used > config["memory_bytes"]:
            self.verdict = "memory"
        elif not can.own_mounts:
            left = config["disk_bytes"] - uncounted.on_device(unnamed, config["work"])
            if left < 0 or _too_much(config["work"], left):
                self.verdict = "disk"


def _too_much(folder: str, limit: int) -> bool:
    """Whether a folder on disk holds more bytes or files than allowed; stops counting as soon as it does.

    What a script has hidden from us is too much.
    """
    size = count = 0
    waiting = [""]
    try:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        while waiting:
            below = waiting.pop()
            here = _open_folder(root, below)
            if here is None:
                continue
            try:
                with os.scandir(here) as entries:
                    for entry in entries:
                        count += 1
                        with contextlib.suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_blocks * 512
                            if entry.is_dir(follow_symlinks=False):
                                waiting.append(f"{below}/{entry.name}".lstrip("/"))
                        if size > limit or count > FILES:
                            return True
            finally:
                os.close(here)
    except OSError:
        return True
    finally:
        os.close(root)
    return False


def _open_folder(root: int, below: str) -> int | None:
    """A folder of the script's, None if it is gone. Neither its depth nor its mode keeps us out.

    The kernel takes no path of more than 4096 bytes, so the way is gone in several steps. And at the level where the
    script runs as our own user it may have made a folder that its owner cannot list: then its owner opens it.
    """
    here, left = os.dup(root), os.fsencode(below or ".")
    try:
        while left:
            cut = len(left) if len(left) <= STEP_BYTES else left.rindex(b"/", 0, STEP_BYTES)
            step, left = left[:cut], left[cut + 1 :]
            nearer = kernel.open_beneath(here, os.fsdecode(step), os.O_PATH | os.O_DIRECTORY)
            os.close(here)
            here = nearer
        try:
            return os.open(f"/proc/self/fd/{here}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            os.chmod(f"/proc/self/fd/{here}", 0o700)
            return os.open(f"/proc/self/fd/{here}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # it is gone, or something else by now
            return None
        raise
    finally:
        os.close(here)
