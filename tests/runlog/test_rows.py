"""Rows are plain values under the names of their columns."""

import dataclasses
import math

import pytest

from rewardrate.attempt import Outcome
from rewardrate.errors import InputError
from rewardrate.runlog import AttemptRow, OutcomeRow, ProposalRow
from rewardrate.runlog.rows import check_finite


def test_an_outcome_of_an_environment_becomes_a_row_field_by_field():
    outcome = Outcome(True, 0.5, 0.8, 1.5, "ok", "ok", "print(1)", trains=True, output="1")
    row = OutcomeRow(**dataclasses.asdict(outcome))
    assert dataclasses.asdict(row) == dataclasses.asdict(outcome)


def test_an_attempt_holds_every_field_of_its_proposal_and_its_outcome():
    names = {field.name for field in dataclasses.fields(AttemptRow)}
    parts = {field.name for kind in (ProposalRow, OutcomeRow) for field in dataclasses.fields(kind)}
    assert parts - {"payload"} <= names


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named(value):
    with pytest.raises(InputError, match=r"outcome\[3\].seconds = "):
        check_finite(OutcomeRow(True, 0.0, None, value, "ok"), "outcome[3]")
    check_finite(OutcomeRow(True, 0.0, None, 1.0, "ok"), "outcome[3]")
