"""The words that every room passes around."""

import dataclasses
import subprocess
import sys

import pytest

from rewardrate.attempt import Outcome, Proposal, RateEstimate, collect


def outcome(status="ok", valid=True, reward=1.0):
    return Outcome(valid=valid, reward=reward, score=0.9, seconds=2.0, message="", status=status, code="x")


def test_only_a_failure_of_the_sandbox_is_not_charged():
    assert outcome().charged
    assert outcome("timeout", valid=False).charged
    assert not outcome("sandbox-failure", valid=False).charged


def test_outcomes_that_arrive_in_any_order_are_put_in_the_order_of_their_index():
    pairs = [(2, outcome(reward=2.0)), (0, outcome(reward=0.0)), (1, outcome(reward=1.0))]
    assert [one.reward for one in collect(iter(pairs))] == [0.0, 1.0, 2.0]


def test_what_is_passed_around_cannot_be_changed_afterwards():
    for thing, field in ((Proposal("x"), "text"), (outcome(), "reward"), (RateEstimate(1.0, 1.0, 0.0, 2.0, 3), "rate")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, field, 0)


def test_the_interval_is_two_standard_errors_wide_on_both_sides_and_the_charge_is_never_negative():
    found = RateEstimate.around(-1.0, 0.5, 7)
    assert (found.rate, found.mean, found.count, float(found)) == (0.0, -1.0, 7, 0.0)
    assert found.low == pytest.approx(-1.98, abs=1e-3)
    assert found.high == pytest.approx(-0.02, abs=1e-3)


def test_the_words_cost_no_other_import():
    code = "import sys, rewardrate.attempt\nassert not {'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
