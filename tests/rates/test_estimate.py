"""The base of all estimators: estimates, settings, states."""

import json

import pytest

from rewardrate.errors import InputError
from rewardrate.rates import NIW, Fixed, RateEstimate, RobbinsMonro, Totals


def test_an_estimate_converts_to_the_rate_that_is_charged():
    assert float(RateEstimate(0.5, 0.4, 0.3, 0.6, 3)) == 0.5


def test_around_charges_the_mean_floored_at_zero_and_keeps_the_interval_honest():
    estimate = RateEstimate.around(-1.0, 0.5, 4)
    assert estimate.rate == 0.0
    assert estimate.mean == -1.0
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * 0.5, rel=1e-3)


def test_before_the_first_update_everything_is_zero():
    assert NIW().estimate == RateEstimate(0.0, 0.0, 0.0, 0.0, 0)


def test_an_estimator_prints_as_the_call_that_makes_it():
    assert repr(Totals(forgetting=0.5)) == "Totals(forgetting=0.5, invalid='zero')"


def test_a_state_of_another_estimator_or_other_settings_is_refused_and_nothing_changes():
    niw = NIW()
    niw.update([0.5, 0.6], [1, 2])
    before = niw.state_dict()
    for other, words in [
        (Totals().state_dict(), "this is a NIW"),
        (NIW(forgetting=0.5).state_dict(), "forgetting"),
        ({}, "not the state"),
        ({**before, "estimate": {"rate": 1}}, "not the state"),
        ({**before, "state": {}}, "cannot be restored"),
        ({**before, "state": {**before["state"], "psi": [[float("nan")] * 2] * 2}}, "cannot be restored"),
        ({**before, "estimate": {**before["estimate"], "rate": float("inf")}}, "must be finite"),
    ]:
        with pytest.raises(InputError, match=words):
            niw.load_state_dict(other)
        assert niw.state_dict() == before


@pytest.mark.parametrize("make", [NIW, RobbinsMonro, Totals, Fixed])
def test_states_hold_no_nan_and_survive_text(make):
    estimator = make()
    estimator.update([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    text = json.dumps(estimator.state_dict(), allow_nan=False)
    fresh = make()
    fresh.load_state_dict(json.loads(text))
    assert fresh.estimate == estimator.estimate


@pytest.mark.parametrize("make", [NIW, RobbinsMonro, Totals])
def test_numbers_too_large_for_the_arithmetic_are_refused_and_the_state_is_kept(make):
    estimator = make()
    estimator.update([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    before = estimator.state_dict()
    with pytest.raises(InputError, match="64-bit"):
        estimator.update([1e308, -1e308, 1e308], [1e-300, 1e-300, 1e-300])
    assert estimator.state_dict() == before
