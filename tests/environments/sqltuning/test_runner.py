import json
import runpy
import sqlite3
import sys

import pytest

from rewardrate.environments.sqltuning import runner

QUERY = "SELECT x FROM t WHERE x > :least ORDER BY x"


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as made:
        made.execute("CREATE TABLE t (x INTEGER)")
        made.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(500)])
    made.close()
    return tmp_path / "t.db"


def request(setup="", query=QUERY, seconds=20.0):
    return {"setup": setup, "queries": {"Q1": query}, "cases": {"Q1": [{"least": 497}]}, "seconds": seconds}


def measure(database, *args, **more):
    return runner.measure(str(database), request(*args, **more), [])["Q1"]


def test_rows_seconds_and_plan_of_every_query_come_back(database):
    found = measure(database, "CREATE INDEX one ON t(x); ANALYZE;")
    assert found["rows"] == [[(498,), (499,)]]
    assert 0 < found["seconds"] < 1
    assert "INDEX one" in found["plan"][0]
    assert len(measure(database, query="SELECT x FROM t")["rows"][0]) == runner.MOST_ROWS + 1


def test_statements_are_split_where_sqlite_says_that_one_ends():
    script = "CREATE TABLE a(x); INSERT INTO a VALUES (';'); -- done; really\nANALYZE"
    assert runner.statements(script)[:2] == ["CREATE TABLE a(x);", "INSERT INTO a VALUES (';');"]
    assert runner.statements(" ;\n; ") == []
    trigger = "CREATE TRIGGER u AFTER INSERT ON a BEGIN DELETE FROM a; SELECT 1; END;"
    assert runner.statements(trigger) == [trigger]


LEAVING = [
    "ATTACH 'request.json' AS other",
    "ATTACH 'da' || 'ta' AS other",
    "ATTACH ':memory:' AS other",
    "VACUUM INTO 'copy.db'",
    "SELECT load_extension('x')",
    "CREATE VIRTUAL TABLE v USING fts5(x)",
    "PRAGMA writable_schema = 1",
    "PRAGMA temp_store_directory = '/tmp'",
    "PRAGMA Threads = 8",
    "SELECT * FROM pragma_database_list",
    "DETACH main",
]
WRITING = [
    "DELETE FROM t",
    "CREATE TABLE u(x)",
    "PRAGMA cache_size = 1",
    "BEGIN",
    "SELECT * FROM pragma_table_info('t')",
    "SELECT 1; DELETE FROM t",
    "EXPLAIN DELETE FROM t",
]


@pytest.mark.parametrize("statement", LEAVING)
def test_setup_statements_cannot_leave_the_database(database, statement):
    before = sorted(database.parent.iterdir())
    with pytest.raises(sqlite3.Error):
        measure(database, statement)
    assert sorted(database.parent.iterdir()) == before


@pytest.mark.parametrize("query", [*WRITING, *LEAVING])
def test_queries_can_only_read(database, query):
    with pytest.raises((sqlite3.Error, sqlite3.Warning)):
        measure(database, query=query)


def test_what_tuning_needs_is_allowed(database):
    setup = """PRAGMA page_size = 8192; VACUUM; PRAGMA cache_size = -20000; PRAGMA mmap_size = 1000000;
    CREATE TABLE copy AS SELECT x FROM t; CREATE INDEX c ON copy(x) WHERE x > 9; CREATE VIEW v AS SELECT x FROM copy;
    DROP TABLE t; ALTER TABLE copy RENAME TO t; BEGIN; UPDATE t SET x = x; COMMIT; PRAGMA optimize; ANALYZE;"""
    assert measure(database, setup)["rows"] == [[(498,), (499,)]]


def test_a_statement_that_does_not_end_and_one_too_large_are_stopped(database):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        measure(database, endless, seconds=0.2)
    with pytest.raises(sqlite3.DataError, match="too big"):
        measure(database, query="SELECT zeroblob(1000000000)")


def run(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.json").write_text(json.dumps(request))
    monkeypatch.setattr(sys, "argv", ["script.py"])
    runpy.run_path(runner.__file__, run_name="__main__")
    return json.loads((tmp_path / "report.json").read_text())


def test_the_script_writes_a_report_whatever_becomes_of_the_proposal(database, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    database.rename(tmp_path / "data" / "workload.db")
    assert run(tmp_path, monkeypatch, request())["queries"]["Q1"]["rows"] == [[[498], [499]]]
    blob = run(tmp_path, monkeypatch, request(query="SELECT x'ff', CAST(x'ff' AS TEXT), 9e999"))
    assert blob["queries"]["Q1"]["rows"][0][0][:2] == ["b'\\xff'", "\ufffd"]
    failed = run(tmp_path, monkeypatch, request("CREATE INDEX one ON t(y);"))
    assert failed == {"error": "no such column: y", "stage": "CREATE INDEX one ON t(y);", "late": False}
    assert run(tmp_path, monkeypatch, request(query="SELECT '\udc80'"))["stage"] == "Q1"
    late = run(tmp_path, monkeypatch, request(seconds=0.0) | {"queries": {"Q1": "SELECT COUNT(*) FROM t a, t b, t c"}})
    assert (late["error"], late["stage"], late["late"]) == ("out of time", "Q1", True)
