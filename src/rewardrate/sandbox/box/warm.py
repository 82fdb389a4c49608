"""The script in a process that has imported already: a fork of the warm server becomes it, without exec.

What a script can notice of a fresh interpreter is made as new: `__main__`, argv, path, environment, signals, streams,
random numbers; and how it ends: exit code, traceback without frames of the server, signals, exit functions, flushed
files.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib
import itertools
import os
import signal
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any, NoReturn

from rewardrate.sandbox.box import kernel

STEP = 1 << 20
PACKAGE = "rewardrate"  # which a script must import anew


def preload(names: list[str]) -> list[str]:
    """Import all of these; the names of those that cannot be."""
    skipped = []
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # whatever a package's import raises, the server must start
            skipped.append(name)
    gc.collect()
    gc.freeze()  # what is here now is never garbage: a script's collections need not look at it
    _set_flags()
    return skipped


def _set_flags() -> None:
    """Set the flags "referenced" and "active" of every page of our memory, by looking at each three times.

    Scripts share these pages and see the flags in /proc/self/smaps: one could set them as a message to the next.
    """
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        places = [line.split()[0].split("-") for line in file if line.split()[1][0] == "r" and "[v" not in line]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for _, (start, end) in itertools.product(range(3), places):
            for place in range(int(start, 16), int(end, 16), STEP):
                with contextlib.suppress(OSError):  # what was given back meanwhile
                    os.pread(memory.fileno(), min(STEP, int(end, 16) - place), place)


def become(
    arguments: list[str], work: str, environment: dict[str, str], say_start: Callable[[], None], ready: int
) -> NoReturn:
    """Run the script in this very process, which everything has been taken from but the imports. Closes `ready`."""
    try:
        path = os.path.join(work, arguments[1])
        main = _fresh(arguments, path, work, environment)
        say_start()
    except BaseException as error:
        os.write(ready, f"{type(error).__name__}: {error}"[:500].encode())
        os._exit(127)
    os.close(ready)
    code, interrupted = _execute(path, main)
    code = _finish(main, code)
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def _fresh(arguments: list[str], path: str, work: str, environment: dict[str, str]) -> types.ModuleType:
    """Everything as a fresh interpreter has it; the new `__main__`."""
    kernel.prctl(kernel.DUMPABLE, 1)  # it may look at itself, as after exec
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_IGN)
    sys.argv, sys.orig_argv = [arguments[1]], list(arguments)
    # A fresh interpreter adds only folders that it sees; those of the server may not be in the box.
    sys.path[:] = [work, *(place for place in sys.path[1:] if place.endswith(".zip") or os.path.isdir(place))]
    sys.path_importer_cache.clear()
    main = types.ModuleType("__main__")
    main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
    vars(main).update(__builtins__=builtins, __cached__=None, __annotations__={})
    sys.modules["__main__"] = main
    _forget()
    return main


def _forget() -> None:
    """State that packages keep per process, which would be the server's, random numbers above all."""
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    temporary: Any = sys.modules.get("tempfile")
    if temporary is not None:
        temporary.tempdir = None
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.ORIGINAL_DIR = os.getcwd()
        processes.current_process().authkey = os.urandom(32)
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(PACKAGE + ".")]:
        del sys.modules[name]


def _execute(path: str, main: types.ModuleType) -> tuple[int, bool]:
    """Exit code, and whether an interrupt ended it."""
    try:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), vars(main))
    except SystemExit as leaving:
        return _exit_code(leaving.code), False
    except BaseException as error:
        below = error.__traceback__.tb_next if error.__traceback__ else None  # the first frame is this one
        sys.excepthook(type(error), error.with_traceback(below), below)
        return 1, isinstance(error, KeyboardInterrupt)
    return 0, False


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    print(code, file=sys.stderr)
    return 1


def _finish(main: types.ModuleType, code: int) -> int:
    """What an interpreter does at its end, less the taking apart of modules; the exit code."""
    for last in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        with contextlib.suppress(SystemExit):
            last()
    code = _flush(code)
    vars(main).clear()  # files that the script left open are written and closed
    gc.collect()
    return _flush(code)


def _flush(code: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:  # the interpreter's own answer to a stream that cannot be written
            code = 120 if stream is sys.stdout else code
    return code
