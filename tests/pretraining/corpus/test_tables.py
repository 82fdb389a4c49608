import pytest

from pretraining.corpus.scripted import BY_NAME, drawn
from rewardrate.pretraining.corpus.tables import table_script


def text(task, **wanted):
    return table_script(BY_NAME[task], drawn(task, approach="table", **wanted)).text()


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("dummies", "pd.get_dummies("),
        ("codes", 'astype("category").cat.codes'),
        ("ordinal", "OrdinalEncoder("),
        ("one-hot", "make_column_transformer("),
        ("target-mean", ".groupby("),
    ],
)
def test_words_are_encoded_in_five_ways(encoding, words):
    assert words in text("diamonds", encoding=encoding)


@pytest.mark.parametrize(
    ("rows", "words"),
    [("nrows", "nrows="), ("sample", ".sample("), ("first", "[:"), ("last", "[-"), ("every", "[::")],
)
def test_rows_are_left_out_in_five_ways(rows, words):
    assert words in text("flights-delay", rows=rows)


def test_a_narrow_reading_names_its_columns_before_it_reads():
    lines = text("diamonds", narrow=True, numbers=BY_NAME["diamonds"].listed).splitlines()
    reading = next(at for at, line in enumerate(lines) if "usecols=" in line)
    assert any(line.startswith(("cols = ", "features = ")) for line in lines[:reading])
    assert '["price"]' in lines[reading]


def test_the_logarithm_of_the_target_is_undone():
    script = text("diamonds", log=True)
    assert "np.log1p(" in script
    assert "np.expm1(" in script


def test_a_probability_is_asked_for_where_one_is_due():
    assert ".predict_proba(" in text("leaf-flavia")
    assert ".predict(" in text("digits8x8")


def test_a_validation_part_is_kept_out_of_the_fit():
    script = text("diamonds", validation="print")
    assert "train_test_split(" in script
    assert ".fit(a, ya)" in script


@pytest.mark.parametrize("writing", ["assign", "frame", "sample"])
def test_the_submission_is_written_in_three_ways(writing):
    script = text("diamonds", writing=writing)
    assert script.rstrip().endswith('.to_csv("submission.csv", index=False)')
    assert ("sample_submission" in script) == (writing == "sample")
