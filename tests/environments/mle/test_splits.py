import pandas as pd
import pytest

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import InputError


@pytest.fixture
def folders(tmp_path):
    public, private = tmp_path / "public", tmp_path / "private"
    public.mkdir()
    private.mkdir()
    return public, private


def tables(rows=100):
    return shuffled(pd.DataFrame({"x": range(rows), "y": range(rows)}), seed=1, test_rows=40)


def test_no_row_is_in_two_splits_and_none_is_lost(folders):
    train, test = tables()
    write_splits(train, test, *folders, target="y", sample=0.0)
    public, private = folders
    seen = pd.read_csv(public / "train.csv")
    hidden = pd.read_csv(private / "test.csv").merge(pd.read_csv(private / "split.csv"), on="id")
    assert len(seen) == 60
    assert sorted(hidden["split"].value_counts().items()) == [("report", 20), ("reward", 20)]
    assert sorted([*seen["y"], *hidden["y"]]) == list(range(100))


def test_what_scripts_see_has_no_answer_and_no_sign_of_the_split(folders):
    train, test = tables()
    write_splits(train, test, *folders, target="y", sample=0.0)
    public, _ = folders
    assert list(pd.read_csv(public / "test.csv").columns) == ["id", "x"]
    assert list(pd.read_csv(public / "sample_submission.csv").columns) == ["id", "y"]
    assert sorted(path.name for path in public.iterdir()) == ["sample_submission.csv", "test.csv", "train.csv"]


def test_the_split_is_mixed_and_the_same_each_time(folders, tmp_path):
    train, test = tables()
    write_splits(train, test, *folders, target="y", sample=0.0)
    first = (folders[1] / "split.csv").read_bytes()
    write_splits(train, test, *folders, target="y", sample=0.0)
    assert (folders[1] / "split.csv").read_bytes() == first
    names = list(pd.read_csv(folders[1] / "split.csv")["split"])
    assert names != sorted(names)


def test_classes_get_a_column_each(folders):
    train, test = tables()
    write_splits(train, test, *folders, target="y", sample={"cat": 0.5, "dog": 0.5})
    assert (folders[0] / "sample_submission.csv").read_text().startswith("id,cat,dog\n")


def test_a_missing_target_a_double_id_and_a_bad_share_are_refused(folders):
    train, test = tables()
    with pytest.raises(InputError, match="columns are missing"):
        write_splits(train, test, *folders, target="z", sample=0.0)
    with pytest.raises(InputError, match="its own id"):
        write_splits(train, pd.concat([test, test]), *folders, target="y", sample=0.0)
    with pytest.raises(InputError, match="report_share"):
        write_splits(train, test, *folders, target="y", sample=0.0, report_share=1.0)


def test_the_split_cannot_be_computed_without_the_answers(folders):
    train, test = tables()
    write_splits(train, test, *folders, target="y", sample=0.0)
    first = (folders[1] / "split.csv").read_text()
    other = test.assign(y=test["y"] + 1)
    write_splits(train, other, *folders, target="y", sample=0.0)
    assert (folders[1] / "split.csv").read_text() != first
