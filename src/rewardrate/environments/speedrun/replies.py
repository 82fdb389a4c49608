"""Replies of implementer and judge that were paid for in a step or attempt which did not end: none is asked twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rewardrate.chat import Chat


class PaidReplies:
    """A file of JSON lines, each on disk before its reply counts; for what is under way, and for resuming alone.

    What asks says when it begins and when its outcomes are on record (`begin`, `end`): then what came before all that
    is still under way is dropped. Where chains do not wait for each other, something always is.

    A reply is known by the SHA-256 of its request: model, messages, settings, number; the key is in neither. What the
    file held when it was opened is given out, each reply once; what comes later is written and not looked up again,
    so that a run which is never killed asks as if there were no file. A line that is no reply is not one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._turn = path, threading.Lock()
        self._known = _read(path) if path is not None else {}
        self._lines: list[tuple[int, str]] = []  # what was written since, each with its number
        self._count = 0  # lines and beginnings so far
        self._under_way: set[int] = set()

    def begin(self) -> int:
        """Something is under way whose replies must be kept; returns what `end` takes."""
        with self._turn:
            self._count += 1
            self._under_way.add(self._count)
            return self._count

    def end(self, begun: int) -> None:
        """Its outcomes are on record. What nobody else may still need is dropped."""
        with self._turn:
            self._under_way.remove(begun)
            oldest = min(self._under_way, default=self._count + 1)
            left = [line for line in self._lines if line[0] > oldest]
            if not self._under_way:
                self._known = {}
            if self._path is not None and (len(left) < len(self._lines) or not self._under_way):
                _write(self._path, [*_lines(self._known), *(line for _, line in left)])
            self._lines = left

    def ask(
        self,
        chat: Chat,
        request: bytes,
        stop: threading.Event,
        usable: Callable[[str], bool] = lambda text: True,
    ) -> str:
        """The reply that was kept, or a new one, kept if it is usable: others are worth asking for again.

        Raises what `Chat.complete` raises. From any thread.
        """
        name = hashlib.sha256(request).hexdigest()
        with self._turn:
            if kept := self._known.get(name):
                self._remember(json.dumps({"request": name, "text": kept[0]}))
                return kept.pop(0)
        text = chat.complete(request, stop).text
        if self._path is not None and usable(text):
            line = json.dumps({"request": name, "text": text})
            with self._turn, self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")  # whatever stands before it, cut or not, is another line
                file.flush()
                os.fsync(file.fileno())
                self._remember(line)
        return text

    def _remember(self, line: str) -> None:
        self._count += 1
        self._lines.append((self._count, line))


def _lines(known: Mapping[str, Sequence[str]]) -> list[str]:
    """Replies of an earlier process, as its file had them."""
    return [json.dumps({"request": name, "text": text}) for name, texts in known.items() for text in texts]


def _write(path: Path, lines: Sequence[str]) -> None:
    """Put a file of these lines in place of the one that is there, as a whole or not at all; none: no file."""
    if not lines:
        path.unlink(missing_ok=True)
        return
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write("".join(f"\n{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _read(path: Path) -> dict[str, list[str]]:
    """Request -> its replies; whatever else stands in the file is passed over."""
    found: dict[str, list[str]] = {}
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for part in text.split("\n"):
        with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError):
            line = json.loads(part)
            if isinstance(line["request"], str) and isinstance(line["text"], str):
                found.setdefault(line["request"], []).append(line["text"])
    return found
