"""Scripts, messages and output of many attempts, compressed: every distinct line once, then deflate.

A script that changes three lines of its parent costs three lines. The page unpacks it when the first script is asked
for. Layout, after base64 and zlib:

    lines   every distinct line in order of first use, joined by newlines, UTF-8
    texts   for each text: number of spans, then (first line, number of lines) of each span, as LEB128 integers
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CODE, MESSAGE, OUTPUT = 200_000, 2_000, 8_000
"Characters of a script, a message and an output on the page; the run log has all of them."


@dataclass(frozen=True)
class PackedTexts:
    """Packed texts, in base64."""

    lines: str
    texts: str

    @property
    def size(self) -> int:
        """Bytes it takes on the page."""
        return len(self.lines) + len(self.texts)


class Packer:
    """Collects texts, each distinct one once; `number` is what the page refers to it by."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str, limit: int, *, tail: bool = False) -> int:
        """The text's number; one that is too long is `shortened`."""
        text = shortened(text, limit, tail=tail)
        return self._numbers.setdefault(text, len(self._numbers))

    def pack(self) -> PackedTexts:
        """All of it."""
        places: dict[str, int] = {}
        spans = bytearray()
        for text in self._numbers:
            numbers = [places.setdefault(line, len(places)) for line in text.split("\n")]
            runs = _runs(numbers)
            for value in (len(runs), *(value for run in runs for value in run)):
                _leb(spans, value)
        return PackedTexts(squeeze("\n".join(places).encode("utf-8", "replace")), squeeze(bytes(spans)))


def shortened(text: str, limit: int, *, tail: bool = False) -> str:
    """The first characters of a text that is too long, or its last ones, below a line that says so."""
    if len(text) <= limit:
        return text
    note = f"({len(text):,} characters, shown: the {'last' if tail else 'first'} {limit:,}; the run log has all)"
    return f"{note}\n{text[-limit:]}" if tail else f"{text[:limit]}\n{note}"


def squeeze(data: bytes) -> str:
    """Deflated, in base64."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def unpack(pack: PackedTexts) -> list[str]:
    """Every text again, by number."""
    lines = zlib.decompress(base64.b64decode(pack.lines)).decode("utf-8").split("\n")
    data = iter(zlib.decompress(base64.b64decode(pack.texts)))
    found = []
    while (count := _read(data)) is not None:
        spans = [(_read(data) or 0, _read(data) or 0) for _ in range(count)]
        found.append("\n".join(line for first, length in spans for line in lines[first : first + length]))
    return found


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers, as (first, length)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _leb(out: bytearray, value: int) -> None:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _read(data: Iterator[int]) -> int | None:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value
    return None
