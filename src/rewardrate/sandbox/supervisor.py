"""Start the box's init, drain what the script prints, keep the outer deadline, read the report."""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEEP_BYTES = 32 * 1024  # of the head and of the tail of each output
GRACE_SECONDS = 4.0  # after the script's own deadline init must have reported
PATIENCE_SECONDS = 3.0  # after init was asked to stop
SOURCE = str(Path(__file__).parents[2])
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from rewardrate.sandbox.box.init import main; main()"


@dataclass
class Tail:
    """The first and last bytes of a stream of any length."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    def add(self, part: bytes) -> None:
        """More of it."""
        self.total += len(part)
        room = KEEP_BYTES - len(self.head)
        self.head += part[:room]
        if part[room:]:
            self.tail = (self.tail + part[room:])[-KEEP_BYTES:]

    def text(self) -> str:
        """As printable text; what was dropped from the middle is said."""
        dropped = self.total - len(self.head) - len(self.tail)
        middle = f"\n... {dropped:,} bytes left out ...\n".encode() if dropped else b""
        decoded = (self.head + middle + self.tail).decode("utf-8", "replace")
        return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in decoded)


@dataclass
class Report:
    """What came back: init's findings, the streams, and why the supervisor stopped it (if it did)."""

    found: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    out: Tail = field(default_factory=Tail)
    err: Tail = field(default_factory=Tail)
    stopped: str = ""
    launcher: str = ""


def supervise(config: dict[str, Any], output_bytes: int) -> Report:
    """Run one box to its end. Returns only when its init is gone, and with it everything inside."""
    pipes = {name: os.pipe() for name in ("orders", "report", "out", "err", "control")}
    child_ends = [pipes["orders"][0], pipes["report"][1], pipes["out"][1], pipes["err"][1], pipes["control"][0]]
    mine = {name: ends[1 if name in ("orders", "control") else 0] for name, ends in pipes.items()}
    try:
        init = subprocess.Popen(
            [sys.executable, "-ISB", "-c", START, SOURCE, *map(str, child_ends)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=child_ends,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
            cwd="/",
        )
    except OSError:
        for number in mine.values():
            os.close(number)
        raise
    finally:
        for number in child_ends:
            os.close(number)
    with init:
        try:
            _give_orders(mine["orders"], config)
            return _follow(init, mine, time.monotonic() + config["seconds"] + GRACE_SECONDS, output_bytes)
        finally:
            if init.poll() is None:
                init.kill()
            for name in ("report", "out", "err", "control"):
                os.close(mine[name])


def _give_orders(pipe: int, config: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(pipe, "wb") as file:  # a dead init is seen soon enough
        file.write(json.dumps(config).encode())


def _follow(init: subprocess.Popen[bytes], mine: dict[str, int], deadline: float, output_bytes: int) -> Report:
    report, body, launcher = Report(), bytearray(), Tail()
    alive = os.pidfd_open(init.pid)
    assert init.stderr is not None
    readers = {mine["out"]: report.out.add, mine["err"]: report.err.add, mine["report"]: body.extend}
    readers[init.stderr.fileno()] = launcher.add
    poll = select.poll()
    for number in (*readers, alive):
        poll.register(number, select.POLLIN | select.POLLHUP)
    open_report = living = True
    try:
        while living or open_report:
            now = time.monotonic()
            if now > deadline:
                if report.stopped or not living:
                    break
                deadline = _stop(report, mine["control"], "deadline")
            for number, _ in poll.poll(max(1.0, min(500.0, (deadline - now) * 1000))):
                if number == alive:
                    living = False
                    poll.unregister(alive)
                    deadline = min(deadline, time.monotonic() + 2.0)
                    continue
                part = os.read(number, 1 << 16)
                if part:
                    readers[number](part)
                    continue
                poll.unregister(number)
                if number == mine["report"]:
                    open_report = False
            if report.out.total + report.err.total > output_bytes and not report.stopped:
                deadline = _stop(report, mine["control"], "output")
    finally:
        os.close(alive)
    _drain(mine["out"], report.out)
    _drain(mine["err"], report.err)
    report.launcher = launcher.text()
    _parse(report, bytes(body))
    return report


def _stop(report: Report, control: int, why: str) -> float:
    """Ask init to end it (it kills and reaps its tree); the new deadline, after which it is killed itself."""
    report.stopped = why
    with contextlib.suppress(OSError):
        os.write(control, b"x")
    return time.monotonic() + PATIENCE_SECONDS


def _drain(pipe: int, into: Tail) -> None:
    """What is in the pipe already; never wait for its end, which a daemon could hold."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(1024):
            part = os.read(pipe, 1 << 16)
            if not part:
                return
            into.add(part)


def _parse(report: Report, body: bytes) -> None:
    if len(body) < 4:
        return
    size = struct.unpack("<I", body[:4])[0]
    report.found = json.loads(body[4 : 4 + size])
    place = 4 + size
    for name, length in report.found.get("sizes", {}).items():
        report.files[name] = body[place : place + length]
        place += length
