"""The file of a study."""

import sqlite3

import numpy as np
import pytest

from rewardrate.bandits.results import Cell, Results, blob
from rewardrate.errors import InputError

CELL = Cell("E1", 4, 5, "npg")
ROW = ('{"age": 9}', 0, 2, 1.5, 1.5, 1, blob(np.array([1.0, 2.0])))


def begin(path, recipe="steps = 1\n"):
    return Results.create(path, recipe, {"python": "3"})


def test_a_cell_is_kept_and_found_again(tmp_path):
    with begin(tmp_path / "s.sqlite") as results:
        results.put("tuning", CELL, {"tuning": [ROW]}, trials=2, seconds=0.1, engine="cpu")
    with begin(tmp_path / "s.sqlite") as results:
        assert results.done("tuning") == {CELL}
        assert results.done("evaluation") == set()
        assert results.selected(CELL) == {"age": 9}
        (row,) = results.rows("tuning")
        assert np.frombuffer(row["regrets"], "<f4").tolist() == [1.0, 2.0]
        assert results.about()["python"] == "3"


def test_a_cell_is_written_whole_or_not_at_all(tmp_path):
    with begin(tmp_path / "s.sqlite") as results:
        with pytest.raises(InputError, match="a cell cannot be written"):
            results.put("tuning", CELL, {"tuning": [ROW, ("too", "few")]}, trials=2, seconds=0.1, engine="cpu")
        assert list(results.rows("tuning")) == []
        assert results.done("tuning") == set()


def test_another_recipe_is_refused_and_nothing_is_changed(tmp_path):
    path = tmp_path / "s.sqlite"
    begin(path).close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="holds a study with other settings") as error:
        begin(path, "steps = 2\n")
    assert "there: steps = 1; here: steps = 2" in str(error.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, just words" * 40, b"\x00" * 5000])
def test_a_file_that_is_no_study_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    for opener in (Results.open, begin):
        with pytest.raises(InputError, match="damaged, or no study"):
            opener(path)
    assert path.read_bytes() == content


def test_a_study_with_a_hole_in_it_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    with begin(path) as results:
        for arms in range(5, 400):
            results.put("tuning", Cell("E1", 4, arms, "npg"), {"tuning": [ROW]}, trials=2, seconds=0.1, engine="cpu")
    damaged = bytearray(path.read_bytes())
    damaged[8192:16384] = b"\xff" * 8192
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="damaged"):
        Results.open(path)
    assert path.read_bytes() == bytes(damaged)


def test_a_database_of_someone_else_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE about (name TEXT, value TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="another version"):
        Results.open(path)


def test_a_missing_file_and_a_folder_that_cannot_be_are_reported(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        Results.open(tmp_path / "none.sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        begin(tmp_path / "file" / "s.sqlite")


def test_unknown_tables_and_untuned_cells_are_reported(tmp_path):
    with begin(tmp_path / "s.sqlite") as results:
        with pytest.raises(InputError, match="table = 'cell'"):
            results.rows("cell")
        with pytest.raises(InputError, match="not tuned yet"):
            results.selected(CELL)


def test_one_process_writes_a_study_at_a_time(tmp_path):
    with begin(tmp_path / "s.sqlite"):
        with pytest.raises(InputError, match="another study is writing it"):
            begin(tmp_path / "s.sqlite")
        with Results.open(tmp_path / "s.sqlite") as reader:
            assert reader.about()["python"] == "3"
    begin(tmp_path / "s.sqlite").close()


def test_a_file_that_can_only_be_read_is_reported_before_the_work(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    begin(path).close()
    plain = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda file, **options: plain(f"{file.as_uri()}?mode=ro", uri=True, **options)
    )
    with pytest.raises(InputError, match=r"it cannot be written .*readonly"):
        begin(path)
