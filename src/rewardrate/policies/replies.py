"""Replies that have been paid for and are not on the run's record yet: kept, so that none is asked for twice."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from rewardrate.attempt import Proposal


class KeptReplies:
    """A file of JSON lines, one a reply, each on disk before it counts.

    It holds the replies of one step, told by the step's seed. They stay until the next step begins: by then the run's
    record has them. So whatever moment the process ends at, a reply is here, on record, or was never received. A line
    that the end of the process cut is no reply.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._seed: int | None = None
        self._known: dict[str, Proposal] = {}

    def begin(self, seed: int) -> None:
        """Take up the step with this seed: its replies are kept, those of any other step are dropped."""
        with self._turn:
            lines = self._read()
            mine = [line for line in lines if line is not None and line["seed"] == seed]
            self._seed = seed
            self._known = {line["request"]: _proposal(line) for line in mine}
            if len(mine) < len(lines) or not self._path.exists():
                self._write("".join(_json(line) for line in mine))

    def find(self, request: str) -> Proposal | None:
        """The reply to a request of this step, if it came before."""
        return self._known.get(request)

    def add(self, request: str, proposal: Proposal) -> None:
        """Keep a reply that has come. From any thread."""
        line = {
            "seed": self._seed,
            "request": request,
            "text": proposal.text,
            "finished": proposal.finished,
            "seconds": proposal.seconds,
            "refusal": proposal.refusal,
        }
        with self._turn:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_json(line))
                file.flush()
                os.fsync(file.fileno())
            self._known[request] = proposal

    def clear(self) -> None:
        """Keep nothing any more."""
        with self._turn:
            self._known = {}
            self._path.unlink(missing_ok=True)

    def _read(self) -> list[dict[str, Any] | None]:
        """The lines of the file; None for one that is no reply."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        return [_line(line) for line in text.removesuffix("\n").split("\n")] if text else []

    def _write(self, text: str) -> None:
        """Put a file in place of the one that is there, as a whole or not at all."""
        partial = self._path.with_name(self._path.name + ".partial")
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _json(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"


def _line(text: str) -> dict[str, Any] | None:
    kinds = {"seed": int, "request": str, "text": str, "finished": bool, "seconds": float, "refusal": str}
    with contextlib.suppress(ValueError, RecursionError):
        line = json.loads(text)
        if isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in kinds.items()):
            return line
    return None


def _proposal(line: dict[str, Any]) -> Proposal:
    return Proposal(line["text"], finished=line["finished"], seconds=line["seconds"], refusal=line["refusal"])
