"""Starting inits: through a resident launcher, which has everything imported, or freshly where there is none.

A fresh interpreter costs about 40 ms per box, a fork of a launcher about 2 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rewardrate.errors import InputError
from rewardrate.sandbox.box import kernel

SOURCE = str(Path(__file__).parents[2])
PATH = {"PATH": "/usr/bin:/bin"}
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from rewardrate.sandbox.box.init import main; main()"
SERVE = START.replace("box.init", "box.launcher")
START_READ_ONLY = START.replace("box.init", "box.read_only")
# The place of the source on the path becomes that of the script, so that the path is as a script's own.
SERVE_WARM = SERVE.replace("sys.path.insert(0, sys.argv.pop(1))", "sys.path[0] = sys.argv.pop(1)")
READY_SECONDS, IMPORT_SECONDS, REPLY_SECONDS = 30.0, 120.0, 20.0
END_SECONDS = 20.0
WARM_SERVERS = 2  # most that are kept at once: each holds some 150 MiB
WARM_IMPORTS = (
    "numpy",
    "pandas",
    "sklearn",
    "sklearn.linear_model",
    "sklearn.ensemble",
    "sklearn.feature_extraction.text",
    "sklearn.preprocessing",
    "sklearn.pipeline",
    "sklearn.svm",
    "sklearn.neighbors",
    "sklearn.naive_bayes",
    "sklearn.neural_network",
    "sklearn.model_selection",
    "sklearn.metrics",
    "sklearn.decomposition",
)


class LaunchFailure(OSError):
    """No init could be started: an infrastructure failure, not charged to the script."""


class LaunchRefused(LaunchFailure):
    """The launcher lives but has too many boxes."""


@dataclass
class Init:
    """A running init: the descriptor of its process, and the process itself if it is our own child."""

    descriptor: int
    process: subprocess.Popen[bytes] | None = None
    patience_seconds: float = 0.0
    launcher: Launcher | None = None

    def lost_launcher(self) -> bool:
        """Whether the launcher it came from has died; asked when init is gone, and they die within a moment."""
        return self.launcher is not None and self.launcher.died(within_seconds=2.0)

    def end(self) -> None:
        """Kill it unless it ends in time, and let go of it. Its boxes end with it."""
        # A pidfd and not a process number: init may be a grandchild, which we cannot wait for, and its number may have
        # been given to another process by now.
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if not poll.poll(int(self.patience_seconds * 1000)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
            poll.poll(int(END_SECONDS * 1000))  # process 1 of a namespace ends after all others in it
        os.close(self.descriptor)
        if self.process is not None:
            with self.process:
                pass


class Launcher:
    """One resident process. Used by one thread at a time; when it fails once it is not used again."""

    def __init__(self, python: str, environment: Mapping[str, str], imports: Sequence[str] = ()) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [SOURCE, str(theirs.fileno()), str(os.getpid()), json.dumps(list(imports))]
        command = [python, "-s", "-c", SERVE_WARM, *words] if imports else [python, "-ISB", "-c", SERVE, *words]
        if imports and os.geteuid() != 0:
            command = [sys.executable, "-ISB", "-c", START_READ_ONLY, SOURCE, *command]
        self.skipped: tuple[str, ...] = ()
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env=dict(environment),
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            self._line.close()
            raise LaunchFailure(f"the launcher could not be started: {error}") from error
        finally:
            theirs.close()
        try:
            self._wait_ready(IMPORT_SECONDS if imports else READY_SECONDS)
        except BaseException:
            self.close()
            raise

    @property
    def process(self) -> int:
        """Its process number."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._line.fileno() >= 0 and self._process.poll() is None

    def died(self, within_seconds: float) -> bool:
        """Whether it is dead, or is so within this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_seconds)
            return True
        return False

    def fork(self, ends: Sequence[int]) -> Init:
        """A new init that has these descriptors."""
        # Answers carry no number. So one question is asked at a time and none after a failure: a late answer would be
        # taken for that to the next question, and one script's init would be watched as another's.
        with self._lock:
            try:
                kernel.send_descriptors(self._line, b"go", ends)
                answer, places, _, _ = socket.recv_fds(self._line, 64, 1, socket.MSG_CMSG_CLOEXEC)
            except BaseException as error:
                if isinstance(error, OSError) and error.errno == errno.ETOOMANYREFS:  # it lives, and so do its boxes
                    raise LaunchRefused("other processes of this user have too many descriptors under way") from error
                self._line.close()
                if isinstance(error, (OSError, ValueError)):
                    raise LaunchFailure(f"the launcher does not answer: {error}") from error
                raise
        if answer == b"no":
            raise LaunchRefused("the launcher cannot start another box")
        if len(places) != 1:
            raise LaunchFailure("the launcher died")
        return Init(places[0], launcher=self)

    def close(self) -> None:
        """End it, and with it what it started."""
        self._line.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def abandon(self) -> None:
        """In a forked child: the launcher is the parent's."""
        with contextlib.suppress(OSError):
            os.close(self._line.detach())
        self._process.returncode = 0

    def _wait_ready(self, patience_seconds: float) -> None:
        """Read what it says until it says that it is ready; what it prints meanwhile is why, if it never does."""
        assert self._process.stdout is not None
        output, said = self._process.stdout, b""
        poll, deadline = select.poll(), time.monotonic() + patience_seconds
        for number in (self._line.fileno(), output.fileno()):
            poll.register(number, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            for number, _ in poll.poll(left * 1000):
                if number == output.fileno():
                    part = os.read(number, 1 << 16)
                    said = (said + part)[-2000:]
                    if not part:
                        poll.unregister(number)
                    continue
                word = self._line.recv(1 << 16)
                if not word:
                    said += _rest(output.fileno())
                    raise LaunchFailure(f"the launcher died: {said.decode(errors='replace').strip()[-500:]}")
                self.skipped = tuple(json.loads(word)["skipped"])
                self._line.settimeout(REPLY_SECONDS)
                return
        raise LaunchFailure(f"the launcher was not ready within {patience_seconds:g} s")


def _rest(pipe: int, patience_seconds: float = 1.0) -> bytes:
    """What a dying process still says."""
    said, deadline = b"", time.monotonic() + patience_seconds
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            break
        said = (said + part)[-2000:]
    return said


class Launchers:
    """The launchers of one owner, by what they have imported; started when first needed, replaced when dead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: OrderedDict[tuple[object, ...], Launcher] = OrderedDict()
        self._broken = 0  # times in a row that it could not be used
        EVERY.add(self)

    def cold(self, ends: Sequence[int]) -> Init:
        """A new init; the launcher's if it can, else a fresh interpreter."""
        for _ in range(2):
            if self._broken >= 3:
                break
            try:
                init = self._get(sys.executable, PATH, ()).fork(ends)
                self._broken = 0
                return init
            except LaunchRefused:
                break
            except LaunchFailure:
                self._drop((sys.executable, ()))
                self._broken += 1
        return fresh(ends)

    def warm(self, ends: Sequence[int], python: str, environment: Mapping[str, str], imports: Sequence[str]) -> Init:
        """A new init that has imported what scripts need. There is no other way to the same clock, so it may fail."""
        try:
            return self._get(python, environment, imports).fork(ends)
        except LaunchRefused:
            raise
        except LaunchFailure:
            self._drop(_key(python, environment, imports))
            raise

    def skipped(self) -> tuple[str, ...]:
        """Imports that no warm server could make, because they are not installed."""
        with self._lock:
            return tuple(dict.fromkeys(name for launcher in self._living.values() for name in launcher.skipped))

    def processes(self) -> set[int]:
        """Process numbers of the launchers that live."""
        with self._lock:
            return {launcher.process for launcher in self._living.values()}

    def close(self) -> None:
        """End all launchers."""
        with self._lock:
            while self._living:
                self._living.popitem()[1].close()

    def forget(self) -> None:
        """In a forked child: leave them to the parent."""
        self._lock = threading.Lock()
        for launcher in self._living.values():
            launcher.abandon()
        self._living.clear()

    def _get(self, python: str, environment: Mapping[str, str], imports: Sequence[str]) -> Launcher:
        key = _key(python, environment, imports)
        with self._lock:
            found = self._living.get(key)
            if found is None or not found.alive():
                if found is not None:
                    self._living.pop(key).close()
                found = self._living[key] = Launcher(python, environment, imports)
                warm = [other for other in self._living if other[1]]
                for other in warm[: max(0, len(warm) - WARM_SERVERS)]:
                    self._living.pop(other).close()
            self._living.move_to_end(key)
            return found

    def _drop(self, key: tuple[object, ...]) -> None:
        with self._lock:
            found = self._living.pop(key, None)
        if found is not None:
            found.close()


def _key(python: str, environment: Mapping[str, str], imports: Sequence[str]) -> tuple[object, ...]:
    return (python, tuple(imports), tuple(sorted(environment.items()))) if imports else (python, ())


def fresh(ends: Sequence[int]) -> Init:
    """An init in an interpreter of its own."""
    process = subprocess.Popen(
        [sys.executable, "-ISB", "-c", START, SOURCE, *map(str, ends)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=list(ends),
        env=PATH,
        start_new_session=True,
        cwd="/",
    )
    return Init(os.pidfd_open(process.pid), process)


def check_imports(imports: Sequence[str]) -> None:
    """Refuse what is not the name of a module."""
    for name in imports:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InputError("warm_imports", name, "it must be the name of a module")


EVERY: weakref.WeakSet[Launchers] = weakref.WeakSet()
SHARED = Launchers()


def _forget_all() -> None:
    for owner in list(EVERY):
        owner.forget()


def _close_all() -> None:
    for owner in list(EVERY):
        owner.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
