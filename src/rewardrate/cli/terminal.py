"""What the terminal shows: tables on standard output, a live bar with time left on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns side by side, two spaces apart; `right` names the columns that are numbers."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([bold(line(header)), "  ".join("-" * width for width in widths), *map(line, rows)])


def harmless(text: str) -> str:
    """Text from outside without what a terminal would obey, or UTF-8 cannot write: only newlines and tabs are kept."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else " " for letter in text)


def bold(text: str, stream: TextIO | None = None) -> str:
    """Bold on a terminal, plain elsewhere or with NO_COLOR."""
    stream = stream or sys.stdout
    return f"\x1b[1m{text}\x1b[0m" if stream.isatty() and "NO_COLOR" not in os.environ else text


class Progress:
    """A bar that redraws itself on a terminal; elsewhere a line at most every ten seconds.

    with Progress("instances", total=2000) as bar:
        bar(done)
    """

    def __init__(self, what: str, total: int, stream: TextIO | None = None) -> None:
        self.what, self.total = what, total
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.pause = 0.1 if self.live else 10.0
        self.start = self.shown = time.monotonic()
        self.done = 0

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int) -> None:
        """Say how much is done; cheap enough to call every time."""
        self.done = done
        now = time.monotonic()
        if now - self.shown >= self.pause:
            self.shown = now
            self._show(now)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self._show(time.monotonic())
            print(file=self.stream)

    def _show(self, now: float) -> None:
        share = self.done / self.total if self.total else 1.0
        left = (now - self.start) * (1 - share) / share if share else float("inf")
        text = f"{self.what} {self.done:,} of {self.total:,}, {duration(left)} left"
        if self.live:
            bar = "#" * round(24 * share)
            print(f"\r[{bar:<24}] {text}   ", end="", file=self.stream, flush=True)
        else:
            print(harmless(text), file=self.stream, flush=True)


class Live:
    """Lines that change in place, and lines above them that stay; without a terminal only the latter.

    with Live() as live:
        live.show("12 of 32 scripts")
        live.say("step 1 done")
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.moves = self.stream.isatty()
        self.width = 0
        self.high = 1
        self.shown = 0.0
        self._lock = threading.RLock()

    def __enter__(self) -> Live:
        return self

    def show(self, *lines: str) -> None:
        """Change what is shown; cheap enough to call every time."""
        now = time.monotonic()
        if not self.moves or now - self.shown < 0.1:
            return
        self.shown = now
        shown = (" ".join(harmless(text).split("\n")).replace("\t", " ") for text in lines)
        self._put(*(text[: max(20, shutil.get_terminal_size().columns - 1)] for text in shown))

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._put("")
            print(harmless(text), file=self.stream, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._put("")

    def _put(self, *lines: str) -> None:
        if not self.moves:
            return
        with self._lock:
            if self.high > 1:  # back to the first line, and nothing below it
                print(f"\r\x1b[{self.high - 1}A\x1b[J", end="", file=self.stream)
                self.width = 0
            *above, last = lines
            for text in above:
                print(f"\r{text.ljust(self.width)}", file=self.stream)
            print(f"\r{last.ljust(self.width)}\r{last}", end="", file=self.stream, flush=True)
            self.width, self.high = len(last), len(lines)


def duration(seconds: float) -> str:
    """12 s, 3 min 05 s, 2 h 10 min."""
    if seconds == float("inf"):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
