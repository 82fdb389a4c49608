"""Start the box's init, drain what the script prints, keep the outer deadline, read the report."""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewardrate.sandbox.launch import Init
from rewardrate.sandbox.stop import Stop, Stopped

KEEP_BYTES = 32 * 1024  # of the head and of the tail of each output
GRACE_SECONDS = 25.0  # after the script's own deadline, and after each sign of life, init must have reported
PATIENCE_SECONDS = 3.0  # after init was asked to stop


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
    """What came back: init's findings, the streams, and why the supervisor stopped it (if it did).

    `found` has "started" as soon as the script was, "seconds" when init has measured it to its end, and "failure" when
    init could not continue.
    """

    found: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    out: Tail = field(default_factory=Tail)
    err: Tail = field(default_factory=Tail)
    stopped: str = ""
    lost_launcher: bool = False
    "The process that started init has died, and by the kernel's hand init with it."


def supervise(
    config: dict[str, Any], output_bytes: int, start: Callable[[Sequence[int]], Init], stop: Stop | None = None
) -> Report:
    """Run one box to its end. Returns only when its init is gone, and with it everything inside.

    `start` makes an init that has the box's ends of five pipes. When `stop` is set, the box ends at once and `Stopped`
    is raised.
    """
    pipes = {name: os.pipe() for name in ("template", "report", "out", "err", "control")}
    theirs = [pipes["template"][0], pipes["report"][1], pipes["out"][1], pipes["err"][1], pipes["control"][0]]
    mine = {name: ends[1 if name in ("template", "control") else 0] for name, ends in pipes.items()}
    try:
        try:
            init = start(theirs)
        finally:
            for number in theirs:
                os.close(number)
        follow = Follow(init, mine, json.dumps(config).encode(), output_bytes)
        try:
            report = follow.run(time.monotonic() + config["seconds"] + GRACE_SECONDS, stop)
            report.lost_launcher = "seconds" not in report.found and init.lost_launcher()
            return report
        except BaseException:
            with contextlib.suppress(OSError):
                os.write(mine["control"], b"x")  # where there is no namespace only init can end what it started
            os.close(mine.pop("report"))  # an init that still writes to it must not block
            init.patience_seconds = PATIENCE_SECONDS
            raise
        finally:
            init.end()
    finally:
        for number in mine.values():
            with contextlib.suppress(OSError):
                os.close(number)


class Follow:
    """Everything that happens between a started init and its end, in one loop that waits for nothing else."""

    def __init__(self, init: Init, mine: dict[str, int], template: bytes, output_bytes: int) -> None:
        self.report, self.body = Report(), bytearray()
        self.mine, self.template, self.output_bytes = mine, memoryview(template), output_bytes
        self.alive = init.descriptor
        self.readers: dict[int, Callable[[bytes], None]] = {
            mine["out"]: self.report.out.add,
            mine["err"]: self.report.err.add,
            mine["report"]: self.body.extend,
        }
        self.poll = select.poll()
        for number in (*self.readers, self.alive):
            self.poll.register(number, select.POLLIN | select.POLLHUP)
        os.set_blocking(mine["template"], False)
        self.poll.register(mine["template"], select.POLLOUT)
        self.open_report = self.living = True
        self.heard = 0.0

    def run(self, deadline: float, stop: Stop | None) -> Report:
        """Until init is gone and its report is here, or the deadline has passed twice."""
        if stop is not None:
            self.poll.register(stop.descriptor, select.POLLIN)
        # Two signs are awaited, in either order: the end of init's process and the end of its report. Neither is
        # enough alone: a script may hold a pipe open for ever where no namespace ends it, and a report may still be in
        # the pipe when init has gone. Whatever a script does with its output delays the next look by one read.
        while self.living or self.open_report:
            now = time.monotonic()
            # Each part of a report is a sign of life: an init that buries hundreds of processes may take its time.
            if now > max(deadline, self.heard + GRACE_SECONDS if self.living else 0.0):
                if self.report.stopped or not self.living:
                    break
                deadline = _stop(self.report, self.mine["control"], "deadline")
            for number, _ in self.poll.poll(max(1.0, min(500.0, (deadline - now) * 1000))):
                if stop is not None and number == stop.descriptor:
                    raise Stopped
                if number == self.alive:
                    self.living = False
                    self.poll.unregister(number)
                    deadline = min(deadline, time.monotonic() + 2.0)
                elif number == self.mine.get("template"):
                    self._give()
                else:
                    self._take(number)
            if self.report.out.total + self.report.err.total > self.output_bytes and not self.report.stopped:
                deadline = _stop(self.report, self.mine["control"], "output")
        _drain(self.mine["out"], self.report.out)
        _drain(self.mine["err"], self.report.err)
        _parse(self.report, bytes(self.body))
        return self.report

    def _give(self) -> None:
        """As much of the job template as the pipe takes; a dead init is seen soon enough."""
        try:
            self.template = self.template[os.write(self.mine["template"], self.template) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.template = self.template[:0]
        if not self.template:
            self.poll.unregister(self.mine["template"])
            os.close(self.mine.pop("template"))

    def _take(self, number: int) -> None:
        part = os.read(number, 1 << 16)
        if part:
            self.readers[number](part)
            if number == self.mine["report"]:
                self.heard = time.monotonic()
            return
        self.poll.unregister(number)
        if number == self.mine["report"]:
            self.open_report = False


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
    """Every whole part of a report: a length, a head, files. What an init that died left unfinished is no part."""
    place = 0
    while place + 4 <= len(body):
        head = place + 4 + struct.unpack_from("<I", body, place)[0]
        try:
            found = json.loads(body[place + 4 : head])
            sizes = found.pop("sizes", {})
            place = head + sum(sizes.values())
        except (ValueError, TypeError, AttributeError, RecursionError):
            return
        if place > len(body):
            return
        report.found.update(found)
        for name, length in sizes.items():
            report.files[name] = body[head : head + length]
            head += length
