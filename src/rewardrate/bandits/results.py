"""The file of a study: SQLite, one transaction per cell, so that a killed study resumes where it stopped.

tuning      one row per cell and configuration: median, mean and all final regrets on the tuning seeds
evaluation  one row per cell and held-out seed: regret, pseudo-regret and price at the horizon
curves      one row per cell and mark: mean over seeds and its band, of regret, pseudo-regret and price
cells       finished cells, their seconds and engine
about       the recipe, and the versions of the software
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.errors import InputError

FORMAT = "rewardrate bandit study 1"
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE cells (
  phase TEXT, family TEXT, contexts INTEGER, arms INTEGER, agent TEXT, trials INTEGER, seconds REAL, engine TEXT,
  PRIMARY KEY (phase, family, contexts, arms, agent));
CREATE TABLE tuning (
  family TEXT, contexts INTEGER, arms INTEGER, agent TEXT, settings TEXT, place INTEGER, n INTEGER,
  median REAL, mean REAL, selected INTEGER, regrets BLOB,
  PRIMARY KEY (family, contexts, arms, agent, place));
CREATE TABLE evaluation (
  family TEXT, contexts INTEGER, arms INTEGER, agent TEXT, settings TEXT, seed INTEGER,
  regret REAL, pseudo_regret REAL, price REAL, optimal_rate REAL,
  PRIMARY KEY (family, contexts, arms, agent, seed));
CREATE TABLE curves (
  family TEXT, contexts INTEGER, arms INTEGER, agent TEXT, step INTEGER, n INTEGER,
  regret REAL, regret_low REAL, regret_high REAL, regret_median REAL,
  pseudo REAL, pseudo_low REAL, pseudo_high REAL, price REAL, price_low REAL, price_high REAL,
  PRIMARY KEY (family, contexts, arms, agent, step));
"""
TABLES = ("tuning", "evaluation", "curves", "cells")


class Cell(NamedTuple):
    """One agent on one world."""

    family: str
    contexts: int
    arms: int
    agent: str


class Results:
    """An open study file. Use it as a context manager; `create` refuses a file that holds something else."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: IO[bytes] | None = None) -> None:
        self.path, self._connection, self._lock = path, connection, lock

    @classmethod
    def create(cls, path: Path, recipe: str, about: dict[str, str]) -> Results:
        """Open the study at `path` for writing, or create it; one process at a time.

        A study of another recipe is refused and not changed.
        """
        lock = _locked(path)
        try:
            results = cls._created(path, recipe, about)
        except BaseException:
            lock.close()
            raise
        results._lock = lock
        return results

    @classmethod
    def _created(cls, path: Path, recipe: str, about: dict[str, str]) -> Results:
        if path.exists() and path.stat().st_size:
            results = cls.open(path)
            held = results.about().get("recipe")
            if held != recipe:
                results.close()
                difference = _first_difference(held or "", recipe)
                remedy = "choose another folder, or give the recipe it was begun with"
                raise InputError("results", str(path), f"it holds a study with other settings ({difference})", remedy)
            try:
                results._connection.execute("BEGIN IMMEDIATE")
                results._connection.execute("UPDATE about SET value = value WHERE name = 'format'")
                results._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                results.close()
                raise InputError("results", str(path), f"it cannot be written ({error})") from None
            return results
        try:
            connection = _connect(path)
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in SCHEMA.split(";"):
                    if statement.strip():
                        connection.execute(statement)
                rows = {"format": FORMAT, "recipe": recipe, **about}.items()
                connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            raise InputError("results", str(path), f"it cannot be written ({error})") from None
        return cls(path, connection)

    @classmethod
    def open(cls, path: Path) -> Results:
        """An existing study; a missing, foreign or damaged file is an InputError, and is not touched."""
        if path.is_dir():
            raise InputError("results", str(path), "it is a folder, and must be a file", "name the study's folder")
        if not path.is_file():
            raise InputError("results", str(path), "there is no such file", "rewardrate bandit study writes one")
        connection = None
        try:
            connection = _connect(path)
            found = connection.execute("SELECT value FROM about WHERE name = 'format'").fetchone()
            damage = connection.execute("PRAGMA quick_check").fetchone()[0]
        except sqlite3.Error as error:
            if connection:
                connection.close()
            remedy = "move it away and run the study again; cells are computed again"
            raise InputError("results", str(path), f"it is damaged, or no study ({error})", remedy) from None
        if not found or found[0] != FORMAT or damage != "ok":
            connection.close()
            raise InputError("results", str(path), f"it is damaged, or of another version (wanted: {FORMAT})")
        return cls(path, connection)

    def about(self) -> dict[str, str]:
        """Format, recipe and versions."""
        return dict(self._connection.execute("SELECT name, value FROM about"))

    def done(self, phase: str) -> set[Cell]:
        """Cells of a phase ("tuning" or "evaluation") that are finished."""
        rows = self._connection.execute("SELECT family, contexts, arms, agent FROM cells WHERE phase = ?", (phase,))
        return {Cell(*row) for row in rows}

    def selected(self, cell: Cell) -> dict[str, Any]:
        """The settings chosen on the tuning seeds."""
        query = "SELECT settings FROM tuning WHERE (family, contexts, arms, agent) = (?, ?, ?, ?) AND selected = 1"
        row = self._connection.execute(query, cell).fetchone()
        if row is None:
            raise InputError("cell", cell, "it is not tuned yet")
        chosen: dict[str, Any] = json.loads(row[0])
        return chosen

    def rows(self, table: str) -> Iterator[sqlite3.Row]:
        """All rows of a table, in the order of its key."""
        if table not in TABLES:
            raise InputError("table", table, f"it must be one of {', '.join(TABLES)}")
        self._connection.row_factory = sqlite3.Row
        key = {"tuning": ", place", "evaluation": ", seed", "curves": ", step", "cells": ", phase"}[table]
        return iter(
            self._connection.execute(f"SELECT * FROM {table} ORDER BY family, contexts, arms, agent{key}").fetchall()
        )

    def put(
        self,
        phase: str,
        cell: Cell,
        tables: dict[str, Iterable[Sequence[Any]]],
        *,
        trials: int,
        seconds: float,
        engine: str,
    ) -> None:
        """Write one finished cell in one transaction."""
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for table, rows in tables.items():
                    for row in rows:
                        values = [*cell, *row]
                        marks = ", ".join("?" * len(values))
                        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)
                done = (phase, *cell, trials, seconds, engine)
                self._connection.execute("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", done)
        except sqlite3.Error as error:
            remedy = "finished cells are kept, and the same command resumes"
            raise InputError("results", str(self.path), f"a cell cannot be written ({error})", remedy) from None

    def close(self) -> None:
        """Close the file and release its lock."""
        self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def blob(values: NDArray[np.float64]) -> bytes:
    """Numbers as little-endian 32-bit floats: what `regrets` holds."""
    return np.asarray(values, dtype="<f4").tobytes()


def _locked(path: Path) -> IO[bytes]:
    """The lock of a study; the operating system releases it when the process ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.with_name(f"{path.name}.lock").open("ab")
    except OSError as error:
        raise InputError("results", str(path), f"it cannot be written ({error})") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        remedy = "wait for it, or name another folder"
        raise InputError("results", str(path), "another study is writing it", remedy) from None
    return file


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _first_difference(held: str, wanted: str) -> str:
    for mine, theirs in zip(held.splitlines(), wanted.splitlines(), strict=False):
        if mine != theirs:
            return f"there: {mine}; here: {theirs}"
    return "it is longer or shorter"
