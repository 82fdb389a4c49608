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
def test_a_column_is_told_by_its_kind(values, said):
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
