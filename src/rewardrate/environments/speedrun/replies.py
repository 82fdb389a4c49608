"""Replies of the implementer and the judge that were paid for in a step which did not end: none is asked for twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from rewardrate.chat import Chat


class PaidReplies:
    """A file of JSON lines, each on disk before its reply counts; for the step under way, and for resuming alone.

    A reply is known by the SHA-256 of its request: model, messages, settings, number; the key is in neither. What the
    file held when it was opened is given out, each reply once; what comes later is written and not looked up again,
    so that a run which is never killed asks as if there were no file. A line that is no reply is not one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path, self._turn = path, threading.Lock()
        self._known = _read(path) if path is not None else {}

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
                return kept.pop(0)
        text = chat.complete(request, stop).text
        if self._path is not None and usable(text):
            line = json.dumps({"request": name, "text": text})
            with self._turn, self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")  # whatever stands before it, cut or not, is another line
                file.flush()
                os.fsync(file.fileno())
        return text

    def clear(self) -> None:
        """The step's outcomes are on record: nothing is kept any more."""
        with self._turn:
            self._known = {}
            if self._path is not None:
                self._path.unlink(missing_ok=True)


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
