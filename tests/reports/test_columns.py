import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.reports import columns


def test_a_column_is_numbers_and_none_is_not_a_number():
    found = columns.column({"reward": [1, None, 2.5]}, "reward")
    assert np.array_equal(found, [1.0, np.nan, 2.5], equal_nan=True)
    for bad, words in (({"reward": ["a"]}, "hold numbers"), ({"reward": []}, "no attempts"), ({}, "no such column")):
        with pytest.raises(InputError, match=words):
            columns.column(bad, "reward")


def test_whole_numbers_and_truth_values_are_checked_row_by_row():
    assert columns.integer_column({"step": [1.0, 2.0]}, "step").tolist() == [1, 2]
    with pytest.raises(InputError, match="whole numbers"):
        columns.integer_column({"step": [1.5]}, "step")
    assert columns.boolean_column(np.array([0.0, 1.0])).tolist() == [False, True]
    with pytest.raises(InputError, match=r"valid\[1\]"):
        columns.boolean_column(np.array([0.0, 0.5]))


def test_lengths_and_values_are_refused_by_name():
    with pytest.raises(InputError, match="step has 2 rows"):
        columns.same_length({"row": [1]}, 2, ("row",))
    good = np.array([1.0, 2.0])
    with pytest.raises(InputError, match=r"seconds\[1\]"):
        columns.check_rows(np.array([1.0, -2.0]), good, np.array([True, True]), "reward")
    with pytest.raises(InputError, match=r"reward\[0\]"):
        columns.check_rows(good, np.array([np.inf, 1.0]), np.array([True, True]), "reward")
    columns.check_rows(good, np.array([np.inf, 1.0]), np.array([False, True]), "reward")
