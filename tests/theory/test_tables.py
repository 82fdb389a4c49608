"""Tables, probabilities and policies are checked entry by entry."""

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.theory.tables import check_p, check_policy, check_rate, check_tables


def test_a_vector_is_one_context():
    reward, seconds = check_tables([1, 2, 3], [1, 1, 1])
    assert reward.shape == seconds.shape == (1, 3)


@pytest.mark.parametrize(
    ("reward", "seconds", "words"),
    [
        ([], [], "0 contexts"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "0 contexts"),
        ([[], []], [[], []], "0 actions"),
        ([[1, 2]], [[1, 2, 3]], "they must be equal"),
        ([[1, np.nan]], [[1, 1]], r"reward\[0, 1\] = nan"),
        ([[1, 1]], [[1, 0]], r"seconds\[0, 1\] = 0.0"),
        ([[1, 1]], [[1, -2]], r"seconds\[0, 1\] = -2.0"),
        ([[1, 1], [1]], [[1, 1], [1, 1]], "table of numbers"),
        (np.zeros((1, 1, 1)), np.ones((1, 1, 1)), "table of numbers"),
    ],
)
def test_a_bad_table_is_refused_by_its_entry(reward, seconds, words):
    with pytest.raises(InputError, match=words):
        check_tables(reward, seconds)


def test_no_probabilities_means_uniform():
    assert check_p(None, 4).tolist() == [0.25] * 4


@pytest.mark.parametrize(("p", "words"), [([0.5], "2 contexts"), ([1.5, -0.5], r"p\[1\]"), ([0.5, 0.4], "sum to 0.9")])
def test_probabilities_must_be_probabilities(p, words):
    with pytest.raises(InputError, match=words):
        check_p(p, 2)


def test_a_policy_is_actions_or_probabilities():
    assert check_policy([1, 0], 2, 2).tolist() == [[0, 1], [1, 0]]
    assert check_policy([[0.5, 0.5]], 1, 2).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ([2, 0], r"policy\[0\] = 2"),
        ([[0.5, 0.4], [1, 0]], "sum to 0.9"),
        ([[2, -1], [1, 0]], r"policy\[0, 1\]"),
        ([0.0, 1.0], "shape"),
    ],
)
def test_a_bad_policy_is_refused(policy, words):
    with pytest.raises(InputError, match=words):
        check_policy(policy, 2, 2)


def test_a_rate_must_be_finite():
    assert check_rate(-1) == -1.0
    with pytest.raises(InputError, match="start = nan"):
        check_rate(float("nan"), "start")
