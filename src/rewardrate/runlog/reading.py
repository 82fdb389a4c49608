"""Questions a run log answers, also while another process writes it."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rewardrate.attempt import Message, Outcome, RateEstimate
from rewardrate.errors import InputError, did_you_mean
from rewardrate.runlog import schema, versions
from rewardrate.runlog.encoding import chat, unpack
from rewardrate.runlog.folder import CONFIG
from rewardrate.runlog.rows import AttemptRow, EventRow, Recorded, StepRow

_ATTEMPT = tuple(field.name for field in dataclasses.fields(AttemptRow))
_OUTCOME = tuple(field.name for field in dataclasses.fields(Outcome))
_COLUMNS = (*_ATTEMPT, "prompt")
_FLAGS = ("valid", "contaminated", "trains")


class Reader:
    """The reading half of `RunLog`. Every question is one short transaction, so a reader never holds up the writer."""

    def __init__(
        self,
        folder: Path,
        db: sqlite3.Connection,
        version: int,
        copy: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.folder = folder
        self.path = folder / schema.FILE
        self._db = db
        self._copy = copy
        self._older = version < schema.VERSION
        if self._older:
            versions.read_as_current(db)
        self._thread_lock = threading.RLock()  # outcomes may arrive from several threads
        self._open = True

    def close(self) -> None:
        """Close the file and leave nothing beside it that was not there. A second call does nothing."""
        if not self._open:
            return
        self._open = False
        self._db.close()
        if self._copy is not None:
            self._copy.cleanup()
        else:
            schema.remove_empty_log(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All questions asked inside see the same moment of the run. Keep it short: the log grows meanwhile."""
        with self._thread_lock, schema.sqlite_errors(self.path):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def about(self) -> dict[str, str]:
        """What was known before step 1: seed, arm, task, versions, machine."""
        return dict(self._rows("SELECT key, value FROM about ORDER BY key"))

    def config_text(self) -> str:
        """The resolved config, as TOML."""
        try:
            return (self.folder / CONFIG).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("run", str(self.folder), f"its {CONFIG} cannot be read ({error})") from None

    def last_step(self) -> int:
        """The latest committed step; 0 before the first."""
        return int(self._rows("SELECT coalesce(max(step), 0) FROM steps")[0][0])

    def steps(self) -> list[StepRow]:
        """Every committed step, in order."""
        columns = "step, rate, rate_mean, rate_low, rate_high, rate_count, metrics, phases, script_seconds"
        rows = self._rows(f"SELECT {columns}, checkpoint, finished FROM steps ORDER BY step")
        with self._readable():
            return [
                StepRow(row[0], RateEstimate(*row[1:6]), json.loads(row[6]), json.loads(row[7]), *row[8:])
                for row in rows
            ]

    def attempts(self, step: int | None = None) -> list[AttemptRow]:
        """Every attempt of the committed steps (or of one), with all texts but its prompt, in order of its number."""
        where, values = ("", ()) if step is None else (" WHERE step = ?", (step,))
        rows = self._rows(f"SELECT {', '.join(_ATTEMPT)} FROM attempts{where} ORDER BY id", values)
        with self._readable():
            return [AttemptRow(**_plain(_ATTEMPT, row)) for row in rows]

    def attempt(self, number: int) -> AttemptRow:
        """One attempt by its number."""
        rows = self._rows(f"SELECT {', '.join(_ATTEMPT)} FROM attempts WHERE id = ?", (number,))
        if not rows:
            raise InputError("attempt", number, f"no committed step of {self.folder} has it")
        with self._readable():
            return AttemptRow(**_plain(_ATTEMPT, rows[0]))

    def prompt(self, number: int) -> list[Message]:
        """The chat that an attempt is the reply to, also of the step in progress; empty where none was kept."""
        for table in ("attempts", "pending"):
            rows = self._rows(f"SELECT prompt FROM {table} WHERE id = ?", (number,))
            if rows:
                with self._readable():
                    return chat(_value("prompt", rows[0][0]))
        raise InputError("attempt", number, f"no step of {self.folder} has it")

    def table(self, *columns: str) -> dict[str, list[Any]]:
        """Columns of the committed attempts, in order of attempt number: what evaluation and figures need.

        Without texts it is quick: 128 x 300 attempts in a tenth of a second.
        """
        for name in columns:
            if name not in _COLUMNS:
                raise InputError("column", name, "attempts have no such column", did_you_mean(name, _COLUMNS))
        if not columns:
            raise InputError("columns", columns, "name at least one", f"known: {', '.join(_COLUMNS)}")
        rows = self._rows(f"SELECT {', '.join(columns)} FROM attempts ORDER BY id")
        with self._readable():
            return {name: [_value(name, row[i]) for row in rows] for i, name in enumerate(columns)}

    def pending(self) -> tuple[Recorded, ...]:
        """The step in progress: its proposals, each with its outcome once it is there. Empty between steps.

        Where chains do not wait for each other: every attempt that is under way or waits for its update.
        """
        return self._recorded("pending")

    def events(self) -> list[EventRow]:
        """Notes, in the order they were written."""
        return [EventRow(*row) for row in self._rows("SELECT time, step, kind, message FROM events ORDER BY id")]

    def _recorded(self, table: str, step: int | None = None) -> tuple[Recorded, ...]:
        names = ("id", "row", "parent", "seed", "reply", "tokens", "generation_seconds", "chain", "updates", "arrival")
        where, values = ("", ()) if step is None else ("WHERE a.step = ?", (step,))
        rows = self._rows(
            f"SELECT {', '.join(f'a.{name}' for name in names + _OUTCOME)}, payload FROM {table} AS a"
            f" LEFT JOIN payloads USING (id) {where} ORDER BY id",
            values,
        )
        found = []
        with self._readable():
            for row in rows:
                drawn = _plain(names, row[: len(names)])
                outcome = _plain(_OUTCOME, row[len(names) : -1])
                proposal = unpack(drawn["reply"], drawn["tokens"], drawn["generation_seconds"], row[-1])
                executed = Outcome(**outcome) if outcome["valid"] is not None else None
                found.append(
                    Recorded(
                        attempt=drawn["id"],
                        row=drawn["row"],
                        parent=drawn["parent"],
                        seed=drawn["seed"],
                        proposal=proposal,
                        outcome=executed,
                        chain=drawn["chain"],
                        updates=drawn["updates"],
                        arrival=drawn["arrival"],
                    )
                )
        return tuple(found)

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._thread_lock, schema.sqlite_errors(self.path):
            if self._older and self._db.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION:
                versions.read_as_is(self._db)
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("run log", str(self.path), f"it is damaged ({error})", "restore it from a copy") from None


def _plain(names: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: _value(name, value) for name, value in zip(names, row, strict=True)}


def _value(name: str, value: Any) -> Any:
    if name in _FLAGS:
        return None if value is None else bool(value)
    if name in schema.TEXTS:
        if isinstance(value, bytes):  # text that UTF-8 cannot write: lone surrogates
            return value.decode("utf-8", "surrogatepass")
        return "" if value is None else value
    if name == "seed":
        return value or ""
    return value
