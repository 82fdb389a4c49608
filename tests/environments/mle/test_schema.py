import json
from dataclasses import replace

import pandas as pd
import pytest

from rewardrate.environments.mle import schema


def test_the_snippet_says_rows_columns_types_and_values(task):
    text = schema.snippet(task)
    assert text.startswith("-> data/train.csv has 369 rows and 32 columns.")
    assert "id (integer) from " in text
    assert "mean radius (number) from " in text
    assert "benign (integer) from 0 to 1" in text
    assert "... 20 more columns ..." in text
    assert text.splitlines()[-1] == "-> data/test.csv has 200 rows and 31 columns."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["b", "a", None, "a"], "c (text) has 2 values: ['a', 'b'], 25.0% missing"),
        ([f"word {n} " * 30 for n in range(9)], "c (text) has 9 values, for example 'word 0 word 0"),
        ([1.5, None], "c (number) from 1.5 to 1.5, 50.0% missing"),
        ([True, False, True, True], "c (bool) is true in 75.0%"),
    ],
)
def test_a_column_is_reported_by_its_kind(values, said):
    told = schema._column("c", pd.Series(values))
    assert told.startswith(said)
    assert len(told) < 200


def test_the_outline_tells_features_from_the_target(task):
    outline = schema.outline(task)
    assert outline.rows == 369
    assert len(outline.numbers) == 30
    assert outline.words == ()
    assert outline.targets == ("benign",)


def test_the_example_is_the_head_of_the_sample(task):
    assert schema.submission_example(task) == "\n".join(
        (task.public / "sample_submission.csv").read_text().splitlines()[:3]
    )


def test_tables_in_json_are_described_like_others(task, tmp_path):
    rows = [
        {"id": f"t{n}", "text": f"words {n}", "likes": ["a"] * n, "about": {"x": n}, "won": n % 2} for n in range(8)
    ]
    (tmp_path / "train.json").write_text(json.dumps(rows))
    (tmp_path / "test.json").write_text(json.dumps([{k: v for k, v in row.items() if k != "won"} for row in rows]))
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "deep.json").write_text('{"a": {"b": [1, 2, {"c": 3}]}, "d": 4}')
    (tmp_path / "sampleSubmission.csv").write_text("id,won\nt0,0\n")
    own = replace(task, public=tmp_path)
    text = schema.snippet(own)
    assert text.startswith("-> data/train.json has 8 rows and 5 columns.")
    assert "won (integer) from 0 to 1" in text
    assert "likes (text) has 8 values, for example '[]'" in text
    assert "-> data/test.json has 8 rows and 4 columns." in text
    assert "-> data/more.jsonl has 8 rows" in text
    assert "data/deep.json" in text


def test_the_compact_outline_knows_json_too(task, tmp_path):
    (tmp_path / "train.json").write_text('[{"id": 1, "words": "a", "size": 2, "won": 1}]')
    (tmp_path / "test.json").write_text('[{"id": 2, "words": "b", "size": 3}]')
    (tmp_path / "sample_submission.csv").write_text("id,won\n2,0\n")
    made = schema._outlined(tmp_path / "train.json", tmp_path / "test.json", "id", 0)
    assert made == schema.Outline(1, ("size",), ("words",), ("won",))


def test_compressed_tables_are_read_and_other_files_are_named(task, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "en_train.csv.zip", "w") as archive:
        archive.writestr("en_train.csv", "id,before\n1,x\n")
    own = replace(task, public=tmp_path)
    assert schema.snippet(own).startswith(
        "-> data/en_train.csv.zip has 1 rows and 2 columns.\nid (integer) from 1 to 1"
    )
    (tmp_path / "en_train.csv.zip").unlink()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").write_bytes(b"x")
    (tmp_path / "notes.bin").write_bytes(b"xyz")
    assert schema.snippet(own) == "-> data/images is a folder of 1 files (.jpg).\n-> data/notes.bin has 3 bytes."
