"""Rows are plain values under the names of their columns; the best attempt is named by one rule."""

import dataclasses
import math

import pytest

from made_race import attempt
from rewardrate.attempt import Outcome
from rewardrate.errors import InputError
from rewardrate.runlog import AttemptRow, best
from rewardrate.runlog.rows import check_finite


def test_an_attempt_holds_every_field_of_its_outcome():
    names = {field.name for field in dataclasses.fields(AttemptRow)}
    assert {field.name for field in dataclasses.fields(Outcome)} <= names


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named(value):
    with pytest.raises(InputError, match=r"outcome\[3\].seconds = "):
        check_finite(Outcome(True, 0.0, None, value, "", "ok", ""), "outcome[3]")
    check_finite(Outcome(True, 0.0, None, 1.0, "", "ok", ""), "outcome[3]")


def row(number, reward, seconds, rank_key=None, status="ok"):
    return attempt(number, 1, number, 0.0, seconds, status, reward=reward, rank_key=rank_key)


def test_the_best_attempt_has_the_highest_reward_then_the_fewest_seconds_then_the_lowest_number():
    assert best([row(1, 1.0, 5.0), row(2, 2.0, 9.0), row(3, 3.0, 1.0, status="error")]).id == 2
    assert best([row(1, 2.0, 5.0), row(2, 2.0, 4.0)]).id == 2
    assert best([row(2, 2.0, 4.0), row(1, 2.0, 4.0)]).id == 1
    assert best([]) is best([row(1, 1.0, 1.0, status="error")]) is None


def test_the_rank_key_is_what_attempts_are_ranked_by_where_there_is_one():
    assert best([row(1, 9.0, 1.0, -30.0), row(2, 1.0, 9.0, -20.0), row(3, 1.0, 8.0, -20.0)]).id == 3
    assert best([row(1, 9.0, 1.0, -30.0), row(2, 0.0, 1.0, status="error"), row(3, 1.0, 8.0, -20.0)]).id == 3


def test_where_some_valid_attempts_have_no_rank_key_all_are_ranked_by_reward():
    assert best([row(1, 2.0, 1.0, 50.0), row(2, 1.0, 1.0, 99.0), row(3, 3.0, 8.0)]).id == 3
