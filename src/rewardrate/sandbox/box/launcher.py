"""A resident process that has imported what an init needs (warm: what scripts need too) and forks one per request.

It holds no secret: job templates go straight to the init. It ends when its socket closes or its parent dies, and the
kernel then ends the boxes it started (their inits asked for that).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from rewardrate.sandbox.box import init, kernel, warm

MOST = 256  # boxes at once
MESSAGE = 1 << 16


def main() -> NoReturn:
    """Entry: the socket's descriptor, the parent's process number and the imports (JSON) in argv."""
    number, parent = int(sys.argv[1]), int(sys.argv[2])
    living = os.pidfd_open(parent)
    if os.getppid() != parent:
        os._exit(0)
    imports = json.loads(sys.argv[3])
    line = socket.socket(fileno=number)
    skipped = warm.preload(imports)
    kernel.prctl(kernel.DUMPABLE, 0)  # not before: only root may look at the memory of a process that is not dumpable
    line.send(json.dumps({"ready": os.getpid(), "skipped": skipped}).encode())
    nothing = os.open("/dev/null", os.O_RDWR)
    for stream in (1, 2):  # from here on no reader is left
        os.dup2(nothing, stream)
    os.close(nothing)
    _serve(line, living)


def _serve(line: socket.socket, living: int) -> NoReturn:
    boxes: dict[int, int] = {}  # pidfd -> process
    poll = select.poll()
    for place in (line.fileno(), living):
        poll.register(place, select.POLLIN)
    while True:
        for place, _ in poll.poll():
            if place == living:
                os._exit(0)
            elif place == line.fileno():
                _answer(line, living, boxes, poll)
            else:
                os.waitpid(boxes.pop(place), 0)
                poll.unregister(place)
                os.close(place)


def _answer(line: socket.socket, living: int, boxes: dict[int, int], poll: select.poll) -> None:
    """One request: five descriptors in, the descriptor of a new init's process out."""
    request, ends, _, _ = socket.recv_fds(line, MESSAGE, 5)
    if not request:
        os._exit(0)
    if len(boxes) >= MOST or len(ends) != 5:
        line.send(b"no")
    else:
        launcher = os.getpid()
        try:
            process = os.fork()
        except OSError:
            line.send(b"no")
        else:
            if process == 0:
                _begin(ends, [line.fileno(), living, *boxes], launcher)
            place = os.pidfd_open(process)
            boxes[place] = process
            poll.register(place, select.POLLIN)
            try:
                kernel.send_descriptors(line, b"ok", [place])
            except OSError:  # nobody could watch it; if the line is broken, the next look at it says so
                os.kill(process, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    line.send(b"no")
    for end in ends:
        os.close(end)


def _begin(ends: list[int], others: list[int], launcher: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        for number in others:
            os.close(number)
        kernel.prctl(kernel.DUMPABLE, 1)  # or its own /proc entries would be closed to it; init closes them later
        init.live(ends, launcher)
    finally:
        os._exit(70)
