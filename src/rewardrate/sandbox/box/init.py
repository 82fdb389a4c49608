"""The init of the box: reads the job template from a pipe, builds the box, runs the script, reports through a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import sys
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

from rewardrate.sandbox.box import kernel, leftovers, mounts, script, tree
from rewardrate.sandbox.box.account import Account, Start
from rewardrate.sandbox.box.capabilities import Capabilities
from rewardrate.sandbox.box.collect import collect
from rewardrate.sandbox.box.watch import Watch


def main() -> NoReturn:
    """Entry: descriptors of template, report, standard output, standard error and control in argv."""
    live([int(word) for word in sys.argv[1:6]])


def live(ends: list[int], launcher: int = 0) -> NoReturn:
    """The whole life of an init. `ends` as above; `launcher` is the process that forked it, if one did."""
    template, report, out, err, control = ends
    for number in range(1, 32):  # process 1 is immune to a signal only while it has no handler; Python sets some
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o022)
    with os.fdopen(template, "rb") as file:
        config = json.load(file)
    config["launcher"] = launcher
    config["can"] = Capabilities(**config["can"])
    files: dict[str, bytes] = {}
    try:
        found = _live(config, out, err, control, report)
        files = found.pop("files")
    except BaseException as error:
        found = {"failure": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-2000:]}
    _send(report, found, files)
    os._exit(0)


def _send(report: int, found: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """A part of the report: a length, a head of that length, the contents of files. Later parts add to earlier ones."""
    head = json.dumps({**found, "sizes": {name: len(content) for name, content in files.items()}}).encode()
    with os.fdopen(report, "wb", closefd=False) as pipe:
        pipe.write(struct.pack("<I", len(head)) + head)
        for content in files.values():
            pipe.write(content)


def _live(config: dict[str, Any], out: int, err: int, control: int, report: int) -> dict[str, Any]:
    for path in config["groups"]:
        with open(path, "w") as file:
            file.write("0")
    account = Account(config["cpu_account"], config["cores"])
    if config["can"].pid_namespace:
        # When the supervisor dies, the kernel kills us and with us the namespace. Without one we must live on to
        # clean up: the control pipe tells us.
        kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
        if config["launcher"] and os.getppid() != config["launcher"]:  # it died before we asked
            os._exit(70)
        mounts.enter(config)
    else:
        kernel.prctl(kernel.SUBREAPER, 1)
    kernel.prctl(kernel.DUMPABLE, 0)
    work, shared_memory = config["work"], config["slot_uid"] if config["can"].host_shared_memory else None
    if shared_memory is not None:
        leftovers.remove(shared_memory)
    for name, text in config["files"].items():
        _put(os.path.join(work, name), bytes.fromhex(text), config)
    os.mkdir(os.path.join(work, "data"), 0o755)
    for name, target in config["data"].items():
        os.symlink(target, os.path.join(work, "data", name))
    if config["drop_uid"]:
        os.chown(work, config["slot_uid"], config["slot_uid"])
    folder = os.open(work, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # before the script can put another in its place
    read, ready = os.pipe()
    account.begin()
    main_process = os.fork()
    if main_process == 0:
        os.close(read)
        script.start(config, out, err, ready)
    tree.raise_priority(0)
    for number in (ready, out, err):
        os.close(number)
    start = _started(read, main_process)
    _send(report, {"started": True}, {})  # from here on, whatever goes wrong is the script's
    try:
        found = Watch(config, main_process, control, start, account).run(lambda: _send(report, {}, {}))
        if shared_memory is not None:
            leftovers.remove(shared_memory)
        found["files"], found["refused"] = collect(folder, config["collect"], config["file_bytes"])
    except BaseException:
        with contextlib.suppress(OSError):
            os.killpg(main_process, signal.SIGKILL)  # even if /proc cannot be read any more
        with contextlib.suppress(OSError):
            tree.kill_all(config)
            tree.reap_all(config)
        raise
    return found


def _started(pipe: int, process: int) -> Start:
    """Waits until the pipe closes, because exec happened: when that was, and what the process had used by then."""
    said = b""
    while part := os.read(pipe, 600):
        said += part
    numbers, _, trouble = said.decode(errors="replace").partition("\n")
    if trouble or len(numbers.split()) != 3:
        os.waitpid(process, 0)
        raise RuntimeError(f"the script could not be started: {trouble or numbers}")
    now, ran, waited = numbers.split()
    return Start(int(now), float(ran), float(waited))


def _put(path: str, content: bytes, config: dict[str, Any]) -> None:
    with open(path, "wb") as file:
        file.write(content)
    if config["drop_uid"]:
        os.chown(path, config["slot_uid"], config["slot_uid"])
