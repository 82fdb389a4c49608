"""The script in the box: apply a proposal's statements to a copy of the database, then time its queries.

The proposal is data. SQLite's authorizer refuses what leaves the database (other files, extensions, virtual tables),
and while queries run everything but reading. Rows are compared outside: the answers are not in the box.
"""

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

REPEATS, ENOUGH_SECONDS, MOST_ROWS, STEPS = 3, 0.05, 200, 10_000
FUNCTIONS = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
PRAGMAS = {"analysis_limit", "automatic_index", "cache_size", "cache_spill", "journal_mode", "mmap_size", "optimize"}
PRAGMAS |= {"locking_mode", "page_size", "synchronous", "temp_store"}  # threads is not: they would work off the clock
READING = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
NEVER = {sqlite3.SQLITE_DETACH, sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE}


def tuning(action: int, first: Any, second: Any, *_: Any) -> int:
    """What setup statements may do. VACUUM attaches a database without a name; any other file is refused."""
    bad = action in NEVER or (action == sqlite3.SQLITE_ATTACH and first != "")
    bad = bad or (action == sqlite3.SQLITE_PRAGMA and first.lower() not in PRAGMAS)
    return sqlite3.SQLITE_DENY if bad else reading(sqlite3.SQLITE_FUNCTION, first, second)


def reading(action: int, first: Any, second: Any, *_: Any) -> int:
    """What queries may do."""
    return sqlite3.SQLITE_OK if action in READING and second not in FUNCTIONS else sqlite3.SQLITE_DENY


def statements(script: str) -> list[str]:
    """The statements of a script, split where SQLite says that one is complete."""
    found: list[str] = []
    text = ""
    for part in script.split(";"):
        text += part + ";"
        if sqlite3.complete_statement(text):
            found, text = [*found, text.strip()], ""
    return [one for one in [*found, text.strip()] if one.strip("; \n\t")]


def timed(database: sqlite3.Connection, sql: str, values: Any) -> tuple[list[Any], float]:
    """The rows of a query, and the CPU seconds of its fastest run.

    CPU seconds, because waiting for a busy machine is not the query's; of the thread, because the clock of the process
    ticks in milliseconds under a limit of CPU time.
    """
    times: list[float] = []
    while not times or (len(times) < REPEATS and sum(times) < ENOUGH_SECONDS):
        start = time.thread_time()
        rows = database.execute(sql, values).fetchmany(MOST_ROWS + 1)
        times.append(time.thread_time() - start)
    return rows, min(times)


def measure(path: str, request: dict[str, Any], stages: list[str]) -> dict[str, Any]:
    """Tune the database at `path`, run every query with every case; `stages` ends with what is under way."""
    deadline = time.monotonic() + request["seconds"]
    database = sqlite3.connect(path, isolation_level=None)
    database.text_factory = lambda text: text.decode(errors="replace")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000_000)
    database.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    database.set_authorizer(tuning)
    for one in statements(request["setup"]):
        stages.append(" ".join(one.split())[:80])
        database.execute(one).fetchall()
    found = {}
    for name, sql in request["queries"].items():
        stages.append(name)
        database.set_authorizer(reading)  # some PRAGMAs act when they are compiled, also behind EXPLAIN
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", request["cases"][name][0])]
        runs = [timed(database, sql, values) for values in request["cases"][name]]
        found[name] = {"rows": [rows for rows, _ in runs], "seconds": sum(s for _, s in runs) / len(runs), "plan": plan}
    return found


if __name__ == "__main__":
    request = json.loads(Path("request.json").read_text(encoding="utf-8"))
    shutil.copyfile("data/workload.db", "workload.db")
    stages, start = ["start"], time.monotonic()
    try:
        report: dict[str, Any] = {"queries": measure("workload.db", request, stages)}
    except Exception as error:  # whatever SQLite has against the proposal
        late = time.monotonic() - start >= request["seconds"]
        report = {"error": "out of time" if late else f"{error}"[:200], "stage": stages[-1], "late": late}
    Path("report.json").write_text(json.dumps(report, default=repr), encoding="utf-8")
