"""The tables of run.sqlite, and how the file is opened."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rewardrate.errors import InputError
from rewardrate.runlog.encoding import utf8

VERSION = 2
"The schema this code writes; it reads every version from 1 to this one."
APPLICATION = 0x72777274  # "rwrt": tells a run log from any other SQLite file
FILE = "run.sqlite"
CLOSING_MILLISECONDS = 500  # for readers that are in the middle of a question

_OUTCOME = """
    valid INTEGER, reward REAL, score REAL, seconds REAL, wall_seconds REAL, cpu_seconds REAL,
    peak_memory_bytes INTEGER, status TEXT, message INTEGER REFERENCES texts (id), code INTEGER REFERENCES texts (id),
    output INTEGER REFERENCES texts (id), clock TEXT, level TEXT, contaminated INTEGER, trains INTEGER,
    rank_key REAL, finished REAL
"""
_PROPOSAL = """
    id INTEGER PRIMARY KEY, step INTEGER NOT NULL, row INTEGER NOT NULL, parent INTEGER, seed TEXT,
    prompt INTEGER REFERENCES texts (id), reply INTEGER REFERENCES texts (id),
    tokens INTEGER NOT NULL, generation_seconds REAL NOT NULL, chain INTEGER NOT NULL, updates INTEGER NOT NULL,
    arrival INTEGER
"""
PROPOSAL_COLUMNS = tuple(part.split()[0] for part in _PROPOSAL.split(",") if part.split())
OUTCOME_COLUMNS = tuple(part.split()[0] for part in _OUTCOME.split(",") if part.split())
TEXTS = ("prompt", "reply", "message", "code", "output")
"Columns that hold the number of a text; the views show the text itself."


def text_of(column: str) -> str:
    """SQL: the text whose number a column of the rows `a` holds."""
    return f"(SELECT text FROM texts WHERE id = a.{column})"


def view(name: str, instead: dict[str, str] | None = None) -> str:
    """SELECT of the columns of `attempts` or `pending`, texts in place of their numbers; `instead`: column -> SQL."""
    columns = PROPOSAL_COLUMNS + OUTCOME_COLUMNS + (("relative_reward", "bonus") if name == "attempts" else ())
    sql = {column: text_of(column) if column in TEXTS else f"a.{column}" for column in columns} | (instead or {})
    return f"SELECT {', '.join(f'{sql[column]} AS {column}' for column in columns)} FROM {name}_rows AS a"


VIEWS = tuple(f"CREATE VIEW {name} AS {view(name)}" for name in ("attempts", "pending"))

STATEMENTS = (
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE texts (id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL UNIQUE, text NOT NULL)",
    f"CREATE TABLE attempts_rows ({_PROPOSAL}, {_OUTCOME}, relative_reward REAL, bonus REAL NOT NULL,"
    " UNIQUE (step, row))",
    f"CREATE TABLE pending_rows ({_PROPOSAL}, {_OUTCOME}, UNIQUE (step, row))",
    "CREATE TABLE payloads (id INTEGER PRIMARY KEY, step INTEGER NOT NULL, payload BLOB NOT NULL)",
    "CREATE TABLE steps (step INTEGER PRIMARY KEY, rate REAL NOT NULL, rate_mean REAL NOT NULL, rate_low REAL NOT NULL,"
    " rate_high REAL NOT NULL, rate_count INTEGER NOT NULL, metrics TEXT NOT NULL, phases TEXT NOT NULL,"
    " script_seconds REAL NOT NULL, checkpoint TEXT, finished REAL NOT NULL)",
    "CREATE TABLE states (step INTEGER NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (step, name))",
    "CREATE TABLE events (id INTEGER PRIMARY KEY, time REAL NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,"
    " message TEXT NOT NULL)",
    *VIEWS,
)
UNUSED_TEXTS = "DELETE FROM texts WHERE id NOT IN ({})".format(
    " UNION ".join(
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
        for table in ("attempts_rows", "pending_rows")
        for column in TEXTS
    )
)
"Removes the texts that no row names any more."


def number_of_text(db: sqlite3.Connection, text: str) -> int | None:
    """The number of a text, stored once however many attempts share it; None for the empty one."""
    if not text:
        return None
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).digest()
    found = db.execute("SELECT id FROM texts WHERE sha256 = ?", (digest,)).fetchone()
    if found:
        return int(found[0])
    value = text if utf8(text) == text else data
    return db.execute("INSERT INTO texts (sha256, text) VALUES (?, ?)", (digest, value)).lastrowid


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """What SQLite complains about inside becomes an InputError that names the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the message may quote bytes of a damaged file
        reason = " ".join(str(error).split())
        if "full" in reason or "readonly" in reason or "disk I/O" in reason:
            raise InputError(
                "run log", str(path), f"it cannot be written ({reason})", "make room, then resume"
            ) from None
        if "locked" in reason:
            raise InputError("run log", str(path), f"another program holds it ({reason})", "close that one") from None
        remedy = "restore it from a copy; what can be saved: sqlite3 run.sqlite .recover"
        raise InputError("run log", str(path), f"it is damaged or not a run log ({reason})", remedy) from None


def make(path: Path) -> sqlite3.Connection:
    """A new file with all tables, made in one transaction that the caller commits."""
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA page_size = 16384")  # scripts of a few kB: several to a page, where 4 kB pages hold one each
    db.execute("BEGIN IMMEDIATE")
    for statement in STATEMENTS:
        db.execute(statement)
    return db


def connect(path: Path) -> sqlite3.Connection:
    """The file, for its one writer.

    Write-ahead log: a reader never waits for the writer, and a process killed at any moment leaves the file as it was
    after the last transaction. Every transaction is synced, so that this holds for a power cut too. Where the file
    system has no shared memory (some network drives), SQLite stays with its rollback journal: as safe, readers wait.
    """
    db = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=30, check_same_thread=False
    )
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError:
        db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = FULL")
    return db


def leave_one_file(db: sqlite3.Connection) -> None:
    """Before the writer closes: everything into the file itself, and readers from now on make no file beside it.

    A reader that is connected at this moment only prevents the second; a full disk both, and then nothing is lost.
    """
    with contextlib.suppress(sqlite3.Error):
        db.execute(f"PRAGMA busy_timeout = {CLOSING_MILLISECONDS}")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")


def remove_empty_log(path: Path) -> None:
    """Remove the empty write-ahead log that a read-only connection leaves behind.

    SQLite itself removes it when the last connection that may write closes, and only then: a running writer keeps it.
    """
    log = path.with_name(path.name + "-wal")
    with contextlib.suppress(sqlite3.Error, OSError):
        if log.stat().st_size == 0:
            with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=0)) as db:
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()


def connect_to_read(path: Path) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str] | None]:
    """The file, for reading; also while it is written, and also from a place that cannot be written.

    Where SQLite may not make the small file that readers share (a read-only copy or mount), the file is read as it is,
    or, if a log or journal lies beside it, from a private copy of both: the folder that is returned.
    """
    uri = path.resolve().as_uri()
    try:
        return _connect_and_ask(f"{uri}?mode=ro"), None
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
    beside = [side for side in (path.with_name(path.name + end) for end in ("-wal", "-journal")) if side.exists()]
    if not beside:
        return _connect_and_ask(f"{uri}?immutable=1"), None
    copy = tempfile.TemporaryDirectory(prefix="rewardrate-")
    try:
        _copy_at_rest([path, *beside], Path(copy.name))
        return _connect_and_ask(f"{(Path(copy.name) / path.name).as_uri()}?mode=rw"), copy
    except BaseException:
        copy.cleanup()
        raise


def _copy_at_rest(sources: list[Path], folder: Path) -> None:
    """Copy files that belong together; again if one of them changed meanwhile."""
    for _ in range(20):
        try:
            before = [(source.stat().st_mtime_ns, source.stat().st_size) for source in sources]
            for source in sources:
                shutil.copyfile(source, folder / source.name)
            if before == [(source.stat().st_mtime_ns, source.stat().st_size) for source in sources]:
                return
        except FileNotFoundError as error:  # its writer has just closed it
            raise sqlite3.OperationalError(f"database is locked: {error}") from None
    raise sqlite3.OperationalError("database is locked: it changes faster than it can be copied")


def _connect_and_ask(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10, check_same_thread=False)
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def check_version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file; InputError for a foreign file or one from a newer rewardrate."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION:
        raise InputError("run log", str(path), "it is not a run log of rewardrate", "give the folder of a run")
    if not 1 <= version <= VERSION:
        rule = f"its format is version {version}; this rewardrate reads 1 to {VERSION}"
        raise InputError("run log", str(path), rule, "read it with the rewardrate that wrote it, or a newer one")
    log = path.with_name(path.name + "-wal")
    at_rest = not log.exists() or log.stat().st_size == 0
    if at_rest and path.stat().st_size % db.execute("PRAGMA page_size").fetchone()[0]:
        raise sqlite3.DatabaseError("its end is cut off")  # SQLite would take the last page for zeros
    return version
