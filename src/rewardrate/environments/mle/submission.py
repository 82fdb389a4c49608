"""Read a submission as what it is: bytes from an untrusted script.

Nothing is evaluated, guessed or unpickled. Every defect has its own message, written for the model that made it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

CELL_CHARACTERS = 4096
SHOWN = 5
NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


class SubmissionRefused(ValueError):
    """A submission that cannot be graded; the message says why and what would be right."""


@dataclass(frozen=True)
class Form:
    """What a submission must look like: the sample submission, and which columns hold numbers."""

    columns: tuple[str, ...]
    "The first one is the id."
    ids: tuple[str, ...]
    numeric: frozenset[str]

    @property
    def most_bytes(self) -> int:
        """A generous cap: long floats in every cell, four times over."""
        widest = max((len(name) for name in self.ids), default=0) + 32 * len(self.columns)
        return 65_536 + 4 * widest * (len(self.ids) + 1)


def read(data: bytes, form: Form) -> dict[str, list[str] | list[float]]:
    """The submission's columns, rows in the form's order. Raises Refused."""
    rows = _rows(_text(data, form), form)
    order = _order(rows, form)
    found: dict[str, list[str] | list[float]] = {}
    for place, name in enumerate(form.columns):
        cells = [rows[at][place] for at in order]
        found[name] = _numbers(name, cells, form.ids) if name in form.numeric else _words(name, cells, form.ids)
    return found


def form_of(sample: bytes, numeric: Sequence[str] | None = None) -> Form:
    """The form that a sample submission sets; columns whose every cell is a number hold numbers, unless said."""
    reader = csv.reader(io.StringIO(sample.decode("utf-8-sig"), newline=""))
    header = next(reader)
    body = [row for row in reader if row]
    if numeric is None:
        columns = list(zip(*body, strict=True)) or [()] * len(header)
        pairs = zip(header[1:], columns[1:], strict=True)
        numeric = [name for name, cells in pairs if all(NUMBER.fullmatch(cell) for cell in cells)]
    return Form(tuple(header), tuple(row[0] for row in body), frozenset(numeric))


def _text(data: bytes, form: Form) -> str:
    if not data.strip():
        raise SubmissionRefused("submission.csv is empty")
    if len(data) > form.most_bytes:
        rule = f"at most {form.most_bytes:,} are read for {len(form.ids):,} rows"
        raise SubmissionRefused(f"submission.csv has {len(data):,} bytes; {rule}")
    if b"\x00" in data:
        raise SubmissionRefused("submission.csv is not a text file: it has NUL bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionRefused(f"submission.csv is not UTF-8 text (byte {error.start})") from None


def _rows(text: str, form: Form) -> list[list[str]]:
    """Rows in the form's column order; the header decides where each stands."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(header, form)
        found = {name: place for place, name in enumerate(header)}
        places = [found[name] for name in form.columns]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise SubmissionRefused(f"line {reader.line_num} has {len(row)} values, the header has {len(header)}")
            if max(map(len, row)) > CELL_CHARACTERS:
                raise SubmissionRefused(
                    f"line {reader.line_num} has a value of more than {CELL_CHARACTERS:,} characters"
                )
            rows.append([row[place] for place in places])
            if len(rows) > len(form.ids):
                raise SubmissionRefused(f"there are more rows than the {len(form.ids):,} of the test set")
    except csv.Error as error:
        raise SubmissionRefused(f"line {reader.line_num} is not valid CSV: {error}") from None
    except StopIteration:
        raise SubmissionRefused("submission.csv has no header") from None
    if len(rows) < len(form.ids):
        raise SubmissionRefused(f"there are {len(rows):,} rows; the test set has {len(form.ids):,}")
    return rows


def _check_header(header: list[str], form: Form) -> None:
    wanted = ",".join(form.columns[:SHOWN]) + (",..." if len(form.columns) > SHOWN else "")
    if "" in header or any(name.startswith("Unnamed:") for name in header):
        raise SubmissionRefused(
            f"a column has no name (an index was written?); the header must be {wanted}; use index=False"
        )
    counts, known = Counter(header), set(form.columns)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise SubmissionRefused(f"column {_some(twice)} stands twice; the header must be {wanted}")
    missing = [name for name in form.columns if name not in counts]
    if missing:
        raise SubmissionRefused(f"column {_some(missing)} is missing; the header must be {wanted}")
    extra = [name for name in header if name not in known]
    if extra:
        raise SubmissionRefused(f"column {_some(extra)} does not belong there; the header must be {wanted}")


def _order(rows: list[list[str]], form: Form) -> list[int]:
    """Where each id of the form stands among the rows; every id once, none unknown."""
    name, places = form.columns[0], {}
    known = set(form.ids)
    for at, row in enumerate(rows):
        key = row[0].strip()
        if key not in known:
            raise SubmissionRefused(f"{name} {_short(key)} is not in the test set")
        if key in places:
            raise SubmissionRefused(f"{name} {_short(key)} stands twice")
        places[key] = at
    return [places[key] for key in form.ids]  # as many rows as ids, all known, none twice: none is missing


def _numbers(name: str, cells: list[str], ids: Sequence[str]) -> list[float]:
    values = []
    for key, cell in zip(ids, cells, strict=True):
        if cell.strip().lower() in ("", "nan", "na", "none", "null", "<na>"):
            raise SubmissionRefused(f"column {_short(name)} has a missing value (row {_short(key)})")
        if cell.strip().lower().lstrip("+-") in ("inf", "infinity"):
            raise SubmissionRefused(f"column {_short(name)} has an infinite value (row {_short(key)})")
        if not NUMBER.fullmatch(cell):
            raise SubmissionRefused(f"column {_short(name)} must hold numbers; row {_short(key)} has {_short(cell)}")
        value = float(cell)
        if not math.isfinite(value):
            raise SubmissionRefused(f"column {_short(name)} has an infinite value (row {_short(key)})")
        values.append(value)
    return values


def _words(name: str, cells: list[str], ids: Sequence[str]) -> list[str]:
    for key, cell in zip(ids, cells, strict=True):
        if not cell.strip():
            raise SubmissionRefused(f"column {_short(name)} has a missing value (row {_short(key)})")
    return [cell.strip() for cell in cells]


def _some(names: list[str]) -> str:
    shown = ", ".join(_short(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _short(text: str, most: int = 40) -> str:
    text = repr(text[:most])
    return text if len(text) <= most else text[: most - 4] + "...'"
