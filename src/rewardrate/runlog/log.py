"""Writing a run so that it can be killed at any moment: no attempt lost, none counted twice."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rewardrate.attempt import SANDBOX_FAILURE, Outcome, Proposal, RateEstimate
from rewardrate.checks import at_least
from rewardrate.errors import InputError
from rewardrate.runlog import folder as files
from rewardrate.runlog import schema, versions
from rewardrate.runlog.encoding import chat_text, numbers_text, pack, shown_reply, states_text, utf8
from rewardrate.runlog.reading import Reader
from rewardrate.runlog.rows import FINAL_EVALUATION, NAME_CHARACTERS, Origin, Recorded, Resumed, check_finite

KEEP = 2  # resume points: should the latest checkpoint be damaged, the one before it still serves


class RunLog(Reader):
    """One run folder, for its one writer or for any number of readers.

    A step is three writes, each one transaction:

        begin_step    the proposals, before anything is executed
        outcome       each attempt as it ends
        commit_step   the attempts, the rate, the states: the step has happened

    Where chains do not wait for each other, `begin` records the proposals of some chains at any time, `ended` each
    attempt as it ends, and `commit_step` is told which attempts its update took.

    Whatever moment the process dies at, `resume` says which proposals exist and which of them were executed.
    """

    def __init__(
        self,
        folder: Path,
        db: sqlite3.Connection,
        version: int,
        lock: files.WriterLock | None,
        copy: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        super().__init__(folder, db, version, copy)
        self._lock = lock

    @classmethod
    def exists(cls, folder: Path) -> bool:
        """Whether `folder` holds a run: then `open` it, else `create` it."""
        return (Path(folder) / schema.FILE).exists()

    @classmethod
    def create(cls, folder: Path, config_text: str, about: Mapping[str, str]) -> Self:
        """A new run in a new or empty folder, its config and `about` written before anything else happens.

        The log is renamed into place last: a folder without run.sqlite is not a run yet, and create may try again.
        """
        folder = Path(folder)
        _refuse_occupied(folder)
        try:
            (folder / files.CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("run", str(folder), f"it cannot be made ({error.strerror})", "choose another") from None
        lock = files.WriterLock(folder)
        try:
            _refuse_occupied(folder)
            partial = folder / (schema.FILE + files.PARTIAL)
            for path in folder.glob(f"{partial.name}*"):
                path.unlink()
            with schema.sqlite_errors(partial):
                db = schema.make(partial)
                db.executemany("INSERT INTO about VALUES (?, ?)", [(k, utf8(str(v))) for k, v in about.items()])
                db.execute("COMMIT")
                db.close()
            files.write_file(folder / files.CONFIG, config_text)
            partial.rename(folder / schema.FILE)
            files.sync(folder)
        except BaseException:
            lock.release()
            raise
        return cls._open_to_write(folder, lock)

    @classmethod
    def open(cls, folder: Path, read_only: bool = False) -> Self:
        """An existing run. For writing, the folder is locked, the file checked and leftovers of a crash removed.

        A folder without a run, a damaged or foreign file, or one of a newer version is an InputError.
        """
        folder = Path(folder)
        path = folder / schema.FILE
        if not path.is_file():
            raise InputError("run", str(folder), f"there is no {schema.FILE} in it", "give the folder of a run")
        if not read_only:
            return cls._open_to_write(folder, files.WriterLock(folder))
        with schema.sqlite_errors(path):
            db, copy = schema.connect_to_read(path)
            try:
                return cls(folder, db, schema.check_version(db, path), None, copy)
            except BaseException:
                Reader(folder, db, schema.VERSION, copy).close()
                raise

    @classmethod
    def _open_to_write(cls, folder: Path, lock: files.WriterLock) -> Self:
        path = folder / schema.FILE
        db = None
        try:
            with schema.sqlite_errors(path):
                probe, copy = schema.connect_to_read(path)  # a foreign file is not touched
                try:
                    version = schema.check_version(probe, path)
                finally:
                    probe.close()
                    if copy is not None:
                        copy.cleanup()
                db = schema.connect(path)
                found = db.execute("PRAGMA quick_check").fetchone()[0]
                if found != "ok":
                    raise sqlite3.DatabaseError(" ".join(found.split()))
                if version < schema.VERSION:
                    versions.migrate(db)
            log = cls(folder, db, schema.VERSION, lock)
            log._tidy()
        except BaseException:
            if db is not None:
                db.close()
            lock.release()
            raise
        return log

    def close(self) -> None:
        """Close the file and let another writer in; all of the run is in run.sqlite. A second call does nothing."""
        if self._open and self._lock is not None:
            schema.leave_one_file(self._db)
        super().close()
        if self._lock is not None:
            self._lock.release()

    # ---- the three writes of a step

    def begin_step(
        self, step: int, proposals: Sequence[Proposal], origins: Sequence[Origin] | None = None
    ) -> list[int]:
        """Record the proposals of a new step before any is executed; returns their attempt numbers.

        One proposal a row, in order; `origins` says what each was made from (unless given: from the base prompt).
        """
        origins = [Origin()] * len(proposals) if origins is None else origins
        with self._transaction() as db:
            if self._rows("SELECT 1 FROM pending_rows LIMIT 1"):
                rule = f"step {self.last_step() + 1} has begun, so it cannot begin"
                raise InputError("step", step, rule, "call resume() and continue from there")
            return self._begin(db, step, proposals, origins, None)

    def begin(
        self, step: int, proposals: Sequence[Proposal], origins: Sequence[Origin], chains: Sequence[int]
    ) -> list[int]:
        """Record new attempts of some chains, before any is executed; returns their attempt numbers.

        `step`: the next to be committed. Others may be under way; a chain has one attempt at a time.
        """
        with self._transaction() as db:
            busy = {row[0] for row in self._rows("SELECT chain FROM pending_rows WHERE valid IS NULL")}
            for chain in chains:
                if chain in busy or at_least("chains", chain, 0) != chain:
                    raise InputError("chains", chain, "its latest attempt has not ended", "begin when it has")
                busy.add(chain)
            return self._begin(db, step, proposals, origins, chains)

    def _begin(
        self,
        db: sqlite3.Connection,
        step: int,
        proposals: Sequence[Proposal],
        origins: Sequence[Origin],
        chains: Sequence[int] | None,
    ) -> list[int]:
        """Without `chains`, row i belongs to chain i; with them, rows are known when an update takes the attempts."""
        if not len(proposals) == len(origins) == len(proposals if chains is None else chains) or not proposals:
            rule = "a step needs proposals, and each its origin and chain"
            raise InputError("proposals, origins", (len(proposals), len(origins)), rule)
        if step != self.last_step() + 1:
            rule = f"step {self.last_step()} is the latest, so it cannot begin"
            raise InputError("step", step, rule, "call resume() and continue from there")
        latest = (f"(SELECT coalesce(max(id), 0) FROM {table}_rows)" for table in ("attempts", "pending"))
        known = self._rows(f"SELECT max({', '.join(latest)})")[0][0]  # each from its end: no row is read
        for row, (proposal, origin) in enumerate(zip(proposals, origins, strict=True)):
            _check_origin(origin, row, known)
            number = known + 1 + row
            place = {"id": number, "step": step, "updates": step - 1, "arrival": None}
            place |= {"row": row, "chain": row} if chains is None else {"row": -number, "chain": chains[row]}
            self._propose(db, place, proposal, origin, f"[{row}]")
        return list(range(known + 1, known + 1 + len(proposals)))

    def _propose(
        self, db: sqlite3.Connection, place: Mapping[str, int | None], proposal: Proposal, origin: Origin, field: str
    ) -> None:
        check_finite(proposal, f"proposals{field}")
        payload = pack(proposal, f"proposals{field}")
        values = {
            **place,
            "parent": origin.parent,
            "seed": origin.seed or None,
            "prompt": schema.number_of_text(db, chat_text(origin.prompt, f"origins{field}.prompt")),
            "reply": schema.number_of_text(db, shown_reply(proposal)),
            "tokens": len(proposal.reply_tokens),
            "generation_seconds": proposal.seconds,
        }
        marks = ", ".join(f":{name}" for name in schema.PROPOSAL_COLUMNS)
        db.execute(f"INSERT INTO pending_rows ({', '.join(schema.PROPOSAL_COLUMNS)}) VALUES ({marks})", values)
        db.execute("INSERT INTO payloads VALUES (?, ?, ?)", (place["id"], place["step"], payload))

    def outcome(self, step: int, row: int, outcome: Outcome) -> None:
        """Record that a proposal was executed; may be called from any thread. A second outcome is refused."""
        where = {"step": step, "row": row}
        if not self._record(outcome, f"outcome[{row}]", "step = :step AND row = :row", where):
            raise InputError("row", row, f"step {step} does not wait for an outcome of it")

    def ended(self, attempt: int, arrival: int, outcome: Outcome) -> None:
        """Record that an attempt has ended, as the run's `arrival`-th: the order in which updates take them."""
        where = {"id": attempt, "arrival": at_least("arrival", arrival, 1)}
        if not self._record(outcome, f"outcome[{attempt}]", "id = :id", where, ", arrival = :arrival"):
            raise InputError("attempt", attempt, "it is not under way")

    def _record(self, outcome: Outcome, field: str, where: str, named: Mapping[str, int], more: str = "") -> bool:
        """Whether there was one proposal without an outcome that this is the outcome of."""
        check_finite(dataclasses.replace(outcome, score=None), field)
        values = dataclasses.asdict(outcome) | {"finished": time.time()}
        score = outcome.score  # a metric may be infinite or undefined: the record says so, or nothing
        values["score"] = None if score is None or math.isnan(score) else score
        values |= {name: utf8(values[name]) for name in ("status", "clock", "level")}
        with self._transaction() as db:
            for name in ("message", "code", "output"):
                values[name] = schema.number_of_text(db, values[name])
            columns = ", ".join(f"{name} = :{name}" for name in schema.OUTCOME_COLUMNS)
            query = f"UPDATE pending_rows SET {columns}{more} WHERE {where} AND valid IS NULL"
            return db.execute(query, {**values, **named}).rowcount == 1

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> str:
        """Let `write` fill a checkpoint folder; returns the name that `commit_step` takes.

        It counts only once a committed step names it.
        """
        self._must_write()
        return files.write_checkpoint(self.folder, step, write)

    def commit_step(
        self,
        step: int,
        rate: RateEstimate,
        relative_rewards: Sequence[float | None],
        bonuses: Sequence[float],
        *,
        metrics: Mapping[str, float] | None = None,
        phases: Mapping[str, float] | None = None,
        states: Mapping[str, Any] | None = None,
        checkpoint: str | None = None,
        attempts: Sequence[int] | None = None,
    ) -> None:
        """The step has happened: its attempts, rate and states become part of the record in one transaction.

        `attempts`: those that the update took, by number, in its order; unless given, all that were begun.
        With `states` it is a resume point (and its `checkpoint`, if the policy has weights, must be in place). A step
        between resume points passes neither; after a crash it is worked through again from the record. Committing such
        a step again only adds the states and the checkpoint.
        """
        check_finite(rate, "rate")
        if checkpoint is not None and (not states or not self._checkpoint_path(checkpoint).is_dir()):
            raise InputError("checkpoint", checkpoint, "it must be in place and come with states", "write it first")
        saved = states_text(states) if states else {}
        with self._transaction() as db:
            if step <= self.last_step():
                self._commit_again(db, step, rate)
            else:
                if attempts is not None:
                    self._take(db, step, attempts)
                self._move_pending(db, step, relative_rewards, bonuses, every=attempts is None)
                spent = self._spent(step)
                texts = numbers_text("metrics", metrics or {}), numbers_text("phases", phases or {})
                values = (step, *dataclasses.astuple(rate), *texts, spent, None, time.time())
                db.execute(f"INSERT INTO steps VALUES ({', '.join('?' * 11)})", values)
            if saved:
                self._add_resume_point(db, step, saved, checkpoint)
        with self._thread_lock, schema.sqlite_errors(self.path):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")  # never waits: a copy of run.sqlite alone has the step
        self._tidy()

    def _take(self, db: sqlite3.Connection, step: int, attempts: Sequence[int]) -> None:
        """Give the attempts of an update their step and rows."""
        for row, number in enumerate(attempts):
            found = db.execute("UPDATE pending_rows SET step = ?, row = ? WHERE id = ?", (step, row, number)).rowcount
            if found != 1:
                raise InputError("attempts", number, f"it is not under way, so step {step} cannot take it")
            db.execute("UPDATE payloads SET step = ? WHERE id = ?", (step, number))

    def _move_pending(
        self,
        db: sqlite3.Connection,
        step: int,
        relative_rewards: Sequence[float | None],
        bonuses: Sequence[float],
        *,
        every: bool,
    ) -> None:
        rows = self._rows("SELECT id, row, valid FROM pending_rows WHERE step = ? AND row >= 0 ORDER BY row", (step,))
        missing = [row for _, row, valid in rows if valid is None]
        if not rows or missing:
            rule = f"rows {missing} have no outcome" if rows else "it has not begun"
            raise InputError("step", step, f"{rule}, so it cannot be committed")
        if not len(rows) == len(relative_rewards) == len(bonuses):
            rule = f"the step has {len(rows)} attempts, and each needs one"
            raise InputError("relative_rewards, bonuses", (len(relative_rewards), len(bonuses)), rule)
        for value in [*(value for value in relative_rewards if value is not None), *bonuses]:
            if not math.isfinite(value):
                raise InputError("relative_rewards, bonuses", value, "they must be finite numbers")
        columns = ", ".join(schema.PROPOSAL_COLUMNS + schema.OUTCOME_COLUMNS)
        db.executemany(
            f"INSERT INTO attempts_rows ({columns}, relative_reward, bonus)"
            f" SELECT {columns}, ?, ? FROM pending_rows WHERE id = ?",
            [(left, bonus, row[0]) for row, left, bonus in zip(rows, relative_rewards, bonuses, strict=True)],
        )
        db.execute("DELETE FROM pending_rows" + ("" if every else f" WHERE step = {int(step)} AND row >= 0"))

    def _commit_again(self, db: sqlite3.Connection, step: int, rate: RateEstimate) -> None:
        if self._rows("SELECT 1 FROM states WHERE step >= ?", (step,)):
            raise InputError("step", step, "it is committed already", "call resume() and continue from there")
        columns = "rate, rate_mean, rate_low, rate_high, rate_count"
        (recorded,) = self._rows(f"SELECT {columns} FROM steps WHERE step = ?", (step,))
        pairs = zip(recorded, dataclasses.astuple(rate), strict=True)
        if not all(math.isclose(old, new, rel_tol=1e-9) for old, new in pairs):  # another machine rounds otherwise
            note = f"step {step} charged {recorded[0]!r}, worked through again {rate.rate!r}"
            self._note(db, "replay-differs", note)

    def _spent(self, step: int) -> float:
        before = self._rows("SELECT coalesce(max(script_seconds), 0.0) FROM steps WHERE step < ?", (step,))[0][0]
        query = "SELECT seconds FROM attempts_rows WHERE step = ? AND status != ? ORDER BY id"
        return float(before) + math.fsum(row[0] for row in self._rows(query, (step, SANDBOX_FAILURE)))

    def _add_resume_point(
        self, db: sqlite3.Connection, step: int, saved: Mapping[str, str], checkpoint: str | None
    ) -> None:
        db.executemany("INSERT INTO states VALUES (?, ?, ?)", [(step, name, text) for name, text in saved.items()])
        db.execute("UPDATE steps SET checkpoint = ? WHERE step = ?", (checkpoint, step))
        points = self._rows(f"SELECT DISTINCT step FROM states ORDER BY step DESC LIMIT {KEEP}")
        if len(points) == KEEP:
            oldest = points[-1][0]
            db.execute("DELETE FROM states WHERE step < ?", (oldest,))
            under_way = "SELECT id FROM pending_rows"
            db.execute(f"DELETE FROM payloads WHERE step <= ? AND id NOT IN ({under_way})", (oldest,))
            db.execute("UPDATE steps SET checkpoint = NULL WHERE step < ?", (oldest,))

    # ---- after a crash

    def resume(self) -> Resumed:
        """Where the run stands. What `recorded` holds is not proposed again, nor executed if it has an outcome."""
        with self._transaction() as db:
            step, checkpoint = self._resume_point()
            last = self.last_step()
            db.execute("DELETE FROM states WHERE step > ?", (step,))  # points whose checkpoint is lost
            db.execute("UPDATE steps SET checkpoint = NULL WHERE step > ?", (step,))
            states = self._rows("SELECT name, state FROM states WHERE step = ?", (step,))
            recorded: dict[int, tuple[Recorded, ...]] = {}
            for later in range(step + 1, last + 1):
                recorded[later] = self._recorded("attempts", later)
            pending = self.pending()
            if pending:
                recorded[last + 1] = pending
            if last or pending:
                done = sum(row.outcome is not None for row in pending)
                self._note(db, "resumed", f"from step {step}; step {last + 1}: {done} of {len(pending)} executed")
        with self._readable():
            return Resumed(step, {name: json.loads(text) for name, text in states}, checkpoint, recorded)

    def _resume_point(self) -> tuple[int, Path | None]:
        query = "SELECT DISTINCT step, checkpoint FROM states JOIN steps USING (step) ORDER BY step DESC"
        points = self._rows(query)
        for step, name in points:
            path = None if name is None else self._checkpoint_path(name)
            if path is None or path.is_dir():
                return int(step), path
        if not self._rows("SELECT 1 FROM attempts_rows LEFT JOIN payloads USING (id) WHERE payload IS NULL LIMIT 1"):
            return 0, None  # everything since step 1 is still recorded
        names = ", ".join(str(name) for _, name in points)
        rule = (
            f"its checkpoints are gone ({names})" if names else f"no step up to {self.last_step()} can be resumed from"
        )
        raise InputError("run", str(self.folder), rule, f"restore one below {files.CHECKPOINTS}/, or start a new run")

    def rewind(self, step: int) -> None:
        """Forget every committed step after `step` and the step in progress: the next to begin is `step` + 1.

        For engines that resume from a checkpoint of their own. In one transaction: attempts, rates, states, the budget
        used and a final evaluation are what they were after `step`; the event `rewound` says what was forgotten.
        """
        last = self.last_step()
        at_least("step", step, 0)
        if step > last:
            raise InputError("step", step, f"the latest committed step is {last}", f"give 0 to {last}")
        with self._transaction() as db:
            begun = self._rows("SELECT DISTINCT step FROM pending_rows")
            if step == last and not begun:
                return
            counted = "SELECT count(*) FROM {}_rows WHERE step > ?"
            attempts = sum(self._rows(counted.format(name), (step,))[0][0] for name in ("attempts", "pending"))
            for table in ("attempts_rows", "pending_rows", "payloads", "states", "steps"):
                db.execute(f"DELETE FROM {table} WHERE step > ?", (step,))
            db.execute("DELETE FROM events WHERE kind = ? AND step > ?", (FINAL_EVALUATION, step))
            db.execute(schema.UNUSED_TEXTS)
            self._note(
                db,
                "rewound",
                f"to step {step}: steps {step + 1} to {last + len(begun)} are dropped, {attempts} attempts",
            )
        self._tidy()

    def note(self, kind: str, message: str) -> None:
        """Write an event."""
        with self._transaction() as db:
            self._note(db, kind, message)

    def _note(self, db: sqlite3.Connection, kind: str, message: str) -> None:
        values = time.time(), self.last_step(), utf8(kind), utf8(message)
        db.execute("INSERT INTO events (time, step, kind, message) VALUES (?, ?, ?, ?)", values)

    # ---- transactions and parts

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside, or nothing of it."""
        self._must_write()
        with self._thread_lock, schema.sqlite_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _must_write(self) -> None:
        if self._lock is None:
            raise InputError("run", str(self.folder), "it was opened for reading", "open it without read_only")

    def _checkpoint_path(self, name: str) -> Path:
        return self.folder / files.CHECKPOINTS / name

    def _tidy(self) -> None:
        """Remove checkpoints that no step names."""
        named = {row[0] for row in self._rows("SELECT checkpoint FROM steps WHERE checkpoint IS NOT NULL")}
        files.remove_checkpoints(self.folder, named)


def _refuse_occupied(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError("run", str(folder), "it is not a folder", "choose another name")
    if (folder / schema.FILE).exists():
        raise InputError("run", str(folder), "it holds a run already", "resume it, or choose another name")
    partial = schema.FILE + files.PARTIAL
    mine = {files.LOCK, files.CHECKPOINTS, partial, f"{partial}-journal", files.CONFIG, files.CONFIG + files.PARTIAL}
    found = {path.name for path in folder.iterdir()}
    begun = partial in found or not {files.CONFIG, files.CONFIG + files.PARTIAL} & found
    checkpoints = folder / files.CHECKPOINTS
    if found - mine or not begun or (checkpoints.is_dir() and any(checkpoints.iterdir())):
        raise InputError("run", str(folder), "a new run needs an empty folder", "choose another name")


def _check_origin(origin: Origin, row: int, known: int) -> None:
    if origin.parent is not None and not 1 <= origin.parent <= known:
        raise InputError(f"origins[{row}].parent", origin.parent, f"attempts so far: 1 to {known}")
    if len(origin.seed) > NAME_CHARACTERS or utf8(origin.seed) != origin.seed:
        raise InputError(
            f"origins[{row}].seed", origin.seed, f"it must be a name of at most {NAME_CHARACTERS} characters"
        )
