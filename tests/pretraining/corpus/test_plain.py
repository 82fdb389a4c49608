import pytest

from pretraining.corpus.scripted import BY_NAME, drawn
from rewardrate.pretraining.corpus.scripts import write


def text(task, approach):
    return write(BY_NAME[task], drawn(task, approach=approach, count=3000)).text()


@pytest.mark.parametrize("approach", ["csv-algebra", "csv-groups"])
def test_csv_scripts_import_neither_pandas_nor_scikit_learn(approach):
    script = text("diamonds", approach)
    assert "pandas" not in script
    assert "sklearn" not in script
    assert "csv.DictReader(" in script


@pytest.mark.parametrize("task", ["kjv-section", "food-reviews"])
def test_words_are_counted_with_the_standard_library_alone(task):
    imports = [line for line in text(task, "csv-words").splitlines() if "import" in line]
    assert imports == ["import csv", "import math", "from collections import Counter"]


@pytest.mark.parametrize(
    ("task", "approach"), [("diamonds", "algebra"), ("digits8x8", "centres"), ("diamonds", "groups")]
)
def test_pandas_scripts_do_without_scikit_learn(task, approach):
    assert "sklearn" not in text(task, approach)


def test_a_constant_is_the_middle_the_commonest_label_or_the_shares():
    assert ".mode()[0]" in text("digits8x8", "constant")
    assert "value_counts(normalize=True)" in text("leaf-flavia", "constant")
    assert '["price"].me' in text("diamonds", "constant")
