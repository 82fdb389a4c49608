"""What the data look like, in a few lines for a prompt: made from the prepared files, never written by hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardrate.environments.mle.task import Task
from rewardrate.errors import MissingExtra

COLUMNS_SHOWN = 12
VALUES_SHOWN = 6
WORDS_SHOWN = 60
ROWS_READ = 1_000_000


def snippet(task: Task) -> str:
    """The schema of every table that scripts see: rows, columns, and each column's type and values."""
    tables = [path for path in sorted(task.public.glob("*.csv")) if path != task.sample_file]
    order = sorted(tables, key=lambda path: (path.name != "train.csv", path.name))
    return "\n".join(_table(path, path.name == "train.csv", path.stat().st_mtime_ns) for path in order)


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
    """Made from train.csv and test.csv; empty where a task has no such tables."""
    train, test = task.public / "train.csv", task.public / "test.csv"
    if not (train.is_file() and test.is_file()):
        return Outline(0, (), (), ())
    return _outlined(train, test, task.form.columns[0], train.stat().st_mtime_ns)


# Kept as long as the file does not change: a step of the loop asks for a hundred prompts.
@lru_cache(maxsize=32)
def _outlined(train: Path, test: Path, key: str, changed: int) -> Outline:
    table = _read(train)
    known = set(_read(test, rows=1).columns)
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
    with task.sample_file.open(encoding="utf-8") as file:
        lines = [file.readline().strip() for _ in range(rows + 1)]
    return "\n".join(line if len(line) <= 300 else line[:300] + "..." for line in lines)


def _read(path: Path, rows: int = ROWS_READ) -> Any:
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise MissingExtra("a prompt's data snippet", "pandas", "agent") from None
    return pd.read_csv(path, nrows=rows)


@lru_cache(maxsize=32)
def _table(path: Path, detailed: bool, changed: int) -> str:
    frame = _read(path)
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
