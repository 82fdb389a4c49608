"""Rows are checked before anything is changed."""

from fractions import Fraction

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates.rows import check_invalid, check_rows, check_valid


def test_numbers_and_vectors_become_float_rows():
    rows = check_rows(1, 2, None, "zero")
    assert rows.reward.tolist() == [1.0]
    assert rows.seconds.tolist() == [2.0]
    assert check_rows([], [], None, "zero").reward.size == 0


@pytest.mark.parametrize(
    ("reward", "seconds", "words"),
    [
        ([1, np.nan], [1, 1], r"reward\[1\] = nan"),
        ([1, np.inf], [1, 1], r"reward\[1\] = inf"),
        ([1, 1, 1], [1, 2, 0], r"seconds\[2\] = 0.0"),
        ([1], [-3], r"seconds\[0\] = -3.0"),
        ([1], [np.nan], r"seconds\[0\] = nan"),
        ([1, 2], [1], "they must be as many"),
        ([[1]], [[1]], "vector of numbers"),
        (["a"], [1], "vector of numbers"),
        (None, [1], "reward"),
        (["1"], [1], "vector of numbers"),
        ([1 + 2j], [1], "vector of numbers"),
        ([1], np.array([1], "timedelta64[ns]"), "vector of numbers"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), [1, 2], "masked"),
        ([10**400], [1], "vector of numbers"),
    ],
)
def test_a_bad_row_is_named(reward, seconds, words):
    with pytest.raises(InputError, match=words):
        check_rows(reward, seconds, None, "zero")


def test_an_invalid_row_counts_as_reward_zero_with_its_real_seconds_or_is_left_out():
    zero = check_rows([5, 7], [1, 2], [True, False], "zero")
    assert (zero.reward.tolist(), zero.seconds.tolist()) == ([5.0, 0.0], [1.0, 2.0])
    left_out = check_rows([5, 7], [1, 2], [1, 0], "exclude")
    assert (left_out.reward.tolist(), left_out.seconds.tolist()) == ([5.0], [1.0])


@pytest.mark.parametrize("valid", [[True], [0, 2], ["yes", "no"], [[1, 0]]])
def test_a_mask_that_is_no_mask_is_refused(valid):
    with pytest.raises(InputError, match="valid"):
        check_valid(valid, 2)


def test_the_rule_for_invalid_rows_is_one_of_two():
    assert check_invalid("exclude") == "exclude"
    with pytest.raises(InputError, match="did you mean 'zero'"):
        check_invalid("zeros")


def test_rows_are_copies_so_the_caller_may_reuse_its_arrays():
    seconds = np.array([1.0, 2.0])
    rows = check_rows([1, 1], seconds, None, "zero")
    seconds[:] = 9.0
    assert rows.seconds.tolist() == [1.0, 2.0]


def test_any_kind_of_real_number_will_do():
    rows = check_rows([Fraction(1, 2), True, np.float32(0.25)], (1, np.int8(2), 3.0), None, "zero")
    assert rows.reward.tolist() == [0.5, 1.0, 0.25]
