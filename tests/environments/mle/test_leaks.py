"""Answers planted where scripts can read them are found; strong honest columns are not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rewardrate.environments.mle import leaks
from rewardrate.environments.mle.splits import write_splits
from rewardrate.environments.mle.task import Task

N = 400
DRAWS = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _same_draws():
    """Every test has the same random numbers, whichever ran before it."""
    DRAWS.bit_generator.state = np.random.default_rng(7).bit_generator.state


def tables(numbers):
    """Train and test with three columns: noise, one that says much, and words."""
    rows = pd.DataFrame({"id": DRAWS.permutation(10 * N)[: 2 * N], "noise": DRAWS.normal(size=2 * N)})
    rows["strong"] = DRAWS.normal(size=2 * N)
    rows["word"] = DRAWS.choice(["red", "green", "blue"], size=2 * N)
    rows["y"] = 10 * rows["strong"] + 3 * rows["noise"] + DRAWS.normal(0, 0.5, size=2 * N)
    if not numbers:
        rows["y"] = np.where(rows["y"] + DRAWS.normal(0, 2, size=2 * N) > 0, "yes", "no")
    return rows[:N].reset_index(drop=True), rows[N:].reset_index(drop=True)


def made(task, place, train, test, sample=None):
    """A task of these tables."""
    for name in ("public", "private"):
        (place / name).mkdir()
    write_splits(train, test, place / "public", place / "private", target="y", sample=0.0 if sample is None else 1.0)
    if sample is not None:
        sample.to_csv(place / "public" / "sample_submission.csv", index=False)
    return replace(task, public=place / "public", private=place / "private", references=())


def failed(task: Task):
    return [(name, said) for name, said, passed in leaks.found(task) if not passed]


@pytest.mark.parametrize("numbers", [True, False])
def test_a_fair_task_passes(task, tmp_path, numbers):
    assert failed(made(task, tmp_path, *tables(numbers))) == []


def code(y):
    return pd.factorize(y)[0]


NUMBERS = {
    "a copy": lambda y: y,
    "rounded": lambda y: y.round(1),
    "another scale": lambda y: 3 - 7 * y,
    "a monotone transform": lambda y: np.exp(y / 10),
    "a transform that is not monotone": lambda y: np.where(y > 0, -y, y + 100),
    "words": lambda y: y.map(lambda value: f"about {value + 100:.1f}"),
    "a little noise": lambda y: y + DRAWS.normal(0, 0.1, len(y)),
}
LABELS = {
    "a copy": lambda y: y,
    "a code": code,
    "a coded word": lambda y: pd.Series(np.where(y == "yes", "kz", "qa")),
    "one row in two hundred wrong": lambda y: code(y) ^ (np.arange(len(y)) % 200 == 0),
    "part of a name": lambda y: pd.Series([f"img_{n:05d}_{word[0]}.png" for n, word in enumerate(y)]),
    "a space at the end": lambda y: pd.Series([f"w{n}" + " " * (word == "yes") for n, word in enumerate(y)]),
    "the case of a letter": lambda y: pd.Series(["qQ"[word == "yes"] + f"{n:x}z" for n, word in enumerate(y)]),
    "the last decimal": lambda y: (DRAWS.normal(size=len(y)).round(2) + 0.001 + 0.002 * code(y)).round(3),
    "odd and even": lambda y: 2 * DRAWS.permutation(10**5)[: len(y)] + code(y),
    "what is missing": lambda y: np.where(y == "yes", np.nan, DRAWS.normal(size=len(y))),
    "intervals": lambda y: 10.0 * code(y) + DRAWS.random(len(y)),
}


@pytest.mark.parametrize("everywhere", [True, False], ids=["in both tables", "in test.csv alone"])
@pytest.mark.parametrize("way", NUMBERS)
def test_a_column_that_gives_numbers_away_is_found(task, tmp_path, way, everywhere):
    train, test = tables(numbers=True)
    test["leak"] = NUMBERS[way](test["y"])
    if everywhere:
        train["leak"] = NUMBERS[way](train["y"])
    ((name, said),) = failed(made(task, tmp_path, train, test))
    assert name == "no column gives y away"
    assert "test.csv: leak" in said


@pytest.mark.parametrize("everywhere", [True, False], ids=["in both tables", "in test.csv alone"])
@pytest.mark.parametrize("way", LABELS)
def test_a_column_that_gives_labels_away_is_found(task, tmp_path, way, everywhere):
    train, test = tables(numbers=False)
    test["leak"] = LABELS[way](test["y"])
    if everywhere:
        train["leak"] = LABELS[way](train["y"])
    ((name, said),) = failed(made(task, tmp_path, train, test))
    assert name == "no column gives y away"
    assert "test.csv: leak" in said


@pytest.mark.parametrize("numbers", [True, False])
def test_columns_that_add_up_to_the_answer_are_found(task, tmp_path, numbers):
    train, test = tables(numbers)
    for table in (train, test):
        first = DRAWS.normal(0, 20, N)
        table["one"] = first
        table["other"] = (table["y"] if numbers else (table["y"] == "yes").astype(float)) - first
    ((name, said),) = failed(made(task, tmp_path, train, test))
    assert (name, said) == ("no column gives y away", "test.csv: a sum of its columns explains 100.0% of it")


@pytest.mark.parametrize("numbers", [True, False])
def test_rows_sorted_by_their_answers_are_found(task, tmp_path, numbers):
    train, test = tables(numbers)
    ((_, said),) = failed(made(task, tmp_path, train, test.sort_values("y")))
    assert "the order of its rows" in said


def test_ids_that_tell_the_label_are_found(task, tmp_path):
    train, test = tables(numbers=False)
    for table in (train, test):
        table["id"] = 2 * np.arange(len(table)) + 10_000 * (table is test) + (table["y"] == "yes")
    ((_, said),) = failed(made(task, tmp_path, train, test))
    assert "test.csv: id modulo" in said


def test_a_sample_submission_with_the_answers_is_found(task, tmp_path):
    train, test = tables(numbers=True)
    ((_, said),) = failed(made(task, tmp_path, train, test, sample=test[["id", "y"]]))
    assert "sample_submission.csv: y" in said


def test_answers_in_another_public_file_are_found(task, tmp_path):
    train, test = tables(numbers=True)
    own = made(task, tmp_path, train, test)
    test[["id", "y"]].rename(columns={"y": "weight"}).sample(frac=1, random_state=1).to_csv(
        own.public / "weights.csv", index=False
    )
    ((_, said),) = failed(own)
    assert "weights.csv: weight" in said


def test_test_rows_that_stand_in_train_with_their_answers_are_found(task, tmp_path):
    train, test = tables(numbers=True)
    train = pd.concat([train, test[:100].assign(id=range(90_000, 90_100))])
    ((name, said),) = failed(made(task, tmp_path, train, test))
    assert name == "test rows do not stand in train.csv with their y"
    assert said.startswith("25.0% of the test rows, 100% of them")


def test_equal_rows_with_other_answers_are_no_copies(task, tmp_path):
    train, test = tables(numbers=False)
    for table in (train, test):
        table["noise"], table["strong"] = 0, (table["strong"] > 0).astype(int)
    assert failed(made(task, tmp_path, train, test)) == []


def test_a_smooth_series_is_no_leak(task, tmp_path):
    time = np.arange(2 * N)
    rows = pd.DataFrame({"id": time, "y": np.sin(time / 40), "noise": DRAWS.normal(size=2 * N)})
    assert failed(made(task, tmp_path, rows[:N], rows[N:].reset_index(drop=True))) == []


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_of_answers_with_a_few_huge_ones_is_a_copy(seed):
    """Of 200 rows half are fitted on; an answer beyond all of them must not hide what the others say."""
    answers = pd.Series(np.random.default_rng(seed).pareto(0.8, size=200))
    half = np.arange(200) % 2 == 0
    told = leaks._Answers(answers[half], answers[~half]).skill(answers[half], answers[~half])
    assert told > leaks.MOST_SKILL["numbers"]
