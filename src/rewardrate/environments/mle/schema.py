"""What the data look like, in a few lines for a prompt: made from the prepared files, never written by hand."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardrate.environments.mle.task import Task
from rewardrate.errors import MissingExtra

TABLES = re.compile(r"\.(csv|tsv|json|jsonl|ndjson)(?:\.(?:zip|gz|bz2|xz))?$")
COLUMNS_SHOWN = 12
VALUES_SHOWN = 6
WORDS_SHOWN = 60
ROWS_READ = 1_000_000


def snippet(task: Task) -> str:
    """The schema of every table that scripts see: rows, columns, and each column's type and values.

    Where there is no table, what else there is.
    """
    paths = [path for path in _table_files(task) if path != task.sample_file]
    order = sorted(paths, key=lambda path: (_stem(path) != "train", path.name))
    if order:
        return "\n".join(_table(path, "train" in _stem(path), path.stat().st_mtime_ns) for path in order)
    return "\n".join(map(_entry, sorted(task.public.iterdir())))


def tables(task: Task) -> Iterator[tuple[str, Any]]:
    """Name and content of every table that scripts see and that can be read."""
    for path in _table_files(task):
        if (frame := _read(path)) is not None:
            yield path.name, frame


@dataclass(frozen=True)
class Outline:
    """The training table in a few words: what there is to learn from, and what to predict."""

    rows: int
    numbers: tuple[str, ...]
    "Feature columns that hold numbers."
    words: tuple[str, ...]
    "Feature columns that hold text."
    targets: tuple[str, ...]
    "Columns that the test table lacks."


def outline(task: Task) -> Outline:
    """Made from train.csv and test.csv, or their like in JSON; empty where a task has no such tables."""
    found = {_stem(path): path for path in reversed(_table_files(task))}
    if not {"train", "test"} <= set(found):
        return Outline(0, (), (), ())
    return _outlined(found["train"], found["test"], task.form.columns[0], found["train"].stat().st_mtime_ns)


# Kept as long as the file does not change: a step of the loop asks for a hundred prompts.
@lru_cache(maxsize=32)
def _outlined(train: Path, test: Path, key: str, changed: int) -> Outline:
    table, other = _read(train), _read(test, rows=1)
    if table is None or other is None:
        return Outline(0, (), (), ())
    known = set(other.columns)
    numeric = set(table.select_dtypes(["number", "bool"]).columns)
    features = [name for name in table.columns if name in known and name != key]
    return Outline(
        len(table),
        tuple(name for name in features if name in numeric),
        tuple(name for name in features if name not in numeric),
        tuple(name for name in table.columns if name not in known),
    )


def submission_example(task: Task, rows: int = 2) -> str:
    """The head of the sample submission."""
    file = io.BytesIO(content(task.sample_file))
    lines = [file.readline().decode("utf-8-sig", "replace").strip() for _ in range(rows + 1)]
    return "\n".join(line if len(line) <= 300 else line[:300] + "..." for line in lines)


def content(path: Path) -> bytes:
    """What a file holds; of an archive, its first file: some of MLE-Bench's sample submissions are zipped."""
    if path.suffix.lower() != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read(archive.namelist()[0])


def _table_files(task: Task) -> list[Path]:
    """Tables by the ends of their names, compressed ones too."""
    return [path for path in sorted(task.public.iterdir()) if path.is_file() and TABLES.search(path.name.lower())]


def _stem(path: Path) -> str:
    return path.name.lower().partition(".")[0]


def _read(path: Path, rows: int = ROWS_READ) -> Any:
    """The table; None for a file that does not hold one."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingExtra("a prompt's data snippet", "pandas", "agent") from None
    match = TABLES.search(path.name.lower())
    kind = match[1] if match else "csv"
    try:
        if kind in ("csv", "tsv"):
            return pd.read_csv(path, nrows=rows, sep="\t" if kind == "tsv" else ",")
        lines = {"lines": True, "nrows": rows} if kind != "json" else {}
        return _flat(pd.read_json(path, dtype=False, **lines)[:rows])
    except (ValueError, TypeError, AttributeError, OSError, zipfile.BadZipFile):
        return None


def _flat(frame: Any) -> Any:
    """Lists and objects as the words that JSON writes them in: pandas cannot count them."""
    nested = [name for name in frame if frame[name].map(lambda value: isinstance(value, list | dict)).any()]
    return frame.assign(**{str(name): frame[name].map(json.dumps) for name in nested})


def _entry(path: Path) -> str:
    """A file or folder that is no table, in a line."""
    if not path.is_dir():
        return f"-> data/{path.name} has {path.stat().st_size:,} bytes."
    files = [each for each in path.rglob("*") if each.is_file()]
    kinds = Counter(each.suffix or "no ending" for each in files).most_common(3)
    return f"-> data/{path.name} is a folder of {len(files):,} files ({', '.join(kind for kind, _ in kinds)})."


@lru_cache(maxsize=32)
def _table(path: Path, detailed: bool, changed: int) -> str:
    frame = _read(path)
    if frame is None:
        return _entry(path)
    more = "more than " if len(frame) == ROWS_READ else ""
    lines = [f"-> data/{path.name} has {more}{len(frame):,} rows and {len(frame.columns)} columns."]
    if not detailed:
        return lines[0]
    shown = list(frame.columns)
    if len(shown) > COLUMNS_SHOWN:  # the first ones and the last two: the target usually ends the table
        shown = shown[: COLUMNS_SHOWN - 2] + shown[-2:]
    for name in frame.columns:
        if name in shown:
            lines.append(_column(name, frame[name]))
        elif name == frame.columns[COLUMNS_SHOWN - 2]:
            lines.append(f"... {len(frame.columns) - len(shown)} more columns ...")
    return "\n".join(lines)


def _column(name: str, values: Any) -> str:
    import pandas as pd

    kinds = values.nunique()
    gaps = f", {values.isna().mean():.1%} missing" if values.isna().any() else ""
    if pd.api.types.is_bool_dtype(values):
        return f"{name} (bool) is true in {values.mean():.1%}{gaps}"
    if pd.api.types.is_numeric_dtype(values):
        whole = pd.api.types.is_integer_dtype(values)
        return f"{name} ({'integer' if whole else 'number'}) from {values.min():g} to {values.max():g}{gaps}"
    if kinds <= VALUES_SHOWN:
        return f"{name} (text) has {kinds} values: {sorted(values.dropna().unique().tolist())}{gaps}"
    example = " ".join(str(values.dropna().iloc[0]).split())
    example = example if len(example) <= WORDS_SHOWN else example[:WORDS_SHOWN] + "..."
    return f"{name} (text) has {kinds:,} values, for example {example!r}{gaps}"
