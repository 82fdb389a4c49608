"""The base of all estimators: estimates, settings, states."""

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import NIW, Estimator, Fixed, Neural, RateEstimate, RobbinsMonro, Totals


def test_an_estimate_converts_to_the_price_that_is_charged_and_keeps_it_once():
    estimate = RateEstimate(0.5, 0.4, 0.3, 0.6, 3)
    assert float(estimate) == estimate.price == estimate.rate == 0.5
    assert "price" not in [field.name for field in dataclasses.fields(estimate)]


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


def damaged(state):
    """The same state with one thing wrong, many times over."""
    for name, value in [
        ("rate", -1.0),
        ("low", 1e9),
        ("count", -1),
        ("count", "x"),
        ("rate", "x"),
        ("rate", 10**400),
        ("mean", math.nan),
    ]:
        yield {**state, "estimate": {**state["estimate"], name: value}}
    for settings in (None, [], "x", {}):
        yield {**state, "settings": settings}
    for inner in (None, {}, [], "x", {**state["state"], "extra": 1} if state["estimator"] != "NIW" else {}):
        yield {**state, "state": inner}
    for name in state["state"]:
        for bad in (None, "x", math.nan, -1, 10**400, [[1.0]], {"state": -1}):
            if not (name in ("r", "rs", "rate") and bad == -1):
                yield {**state, "state": {**state["state"], name: bad}}


@pytest.mark.parametrize("make", [NIW, RobbinsMonro, Totals])
def test_a_damaged_state_is_refused_as_a_whole_and_the_estimator_goes_on(make):
    estimator = make()
    estimator.update([0.5, 0.6, 0.7], [1, 2, 3])
    before = estimator.state_dict()
    for state in damaged(before):
        with pytest.raises(InputError):
            estimator.load_state_dict(state)
        assert estimator.state_dict() == before
    estimator.update([0.5, 0.6, 0.7], [1, 2, 3])


def test_a_scatter_that_is_none_is_refused():
    niw = NIW()
    niw.update([0.5, 0.6, 0.7], [1, 2, 3])
    state = niw.state_dict()
    state["state"] = {**state["state"], "psi": [[1.0, 2.0], [2.0, 1.0]]}
    with pytest.raises(InputError, match="scatter matrix"):
        niw.load_state_dict(state)


@pytest.mark.parametrize("make", [NIW, RobbinsMonro, Totals, Fixed])
def test_estimators_can_be_copied_and_sent_to_other_processes(make):
    estimator = make()
    estimator.update([0.5, 0.6, 0.7], [1, 2, 3])
    for twin in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator))):
        assert twin.update([0.1, 0.2], [1, 2]) == make_again(estimator).update([0.1, 0.2], [1, 2])


def make_again(estimator):
    twin = type(estimator)()
    twin.load_state_dict(estimator.state_dict())
    return twin


def test_an_interrupt_in_the_middle_of_an_update_leaves_no_trace(monkeypatch):
    niw = NIW()
    niw.update([0.5, 0.6, 0.7], [1, 2, 3])
    before = niw.state_dict()

    def interrupt(rng, predictive, batches):
        rng.standard_normal(5)
        raise KeyboardInterrupt

    monkeypatch.setattr("rewardrate.rates.niw.draw_literal", interrupt)
    with pytest.raises(KeyboardInterrupt):
        niw.update([0.5, 0.6, 0.7], [1, 2, 3])
    assert niw.state_dict() == before


@pytest.mark.parametrize("make", [NIW, RobbinsMonro, Totals, Fixed])
def test_extreme_rows_are_absorbed_or_refused_but_never_warned_about(make):
    """Warnings are errors in this suite."""
    wide = np.linspace(0.5, 1.5, 40)
    for reward, seconds in [
        (1e75, 1.0),
        (1.0, 1e-308),
        (1e30, 1e300),
        (1e308, 1e308),
        (1e-300, 1e-300),
        (-1e200, 1e-200),
    ]:
        estimator = make()
        try:
            estimator.update(reward * wide, seconds * wide)
        except InputError as error:
            assert "64-bit" in str(error)
        assert math.isfinite(estimator.estimate.rate)


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


def test_a_single_stream_is_priced_or_refused_with_what_to_use_instead():
    """Reward 0.8 in 3 seconds, over and over: never a silent zero."""
    for make in (Totals, RobbinsMonro, Neural):
        if make is Neural:
            pytest.importorskip("torch")
        estimator = make()
        for _ in range(50):
            estimator.update(reward=0.8, seconds=3.0)
        assert estimator.estimate.mean == pytest.approx(0.8 / 3, rel=0.02)
        assert estimator.estimate.count == 50
    niw = NIW()
    for rows in ((0.8, 3.0), ([0.8], [3.0])):
        with pytest.raises(InputError, match=r"at least 2 rows at once; .*Totals"):
            niw.update(*rows)
    assert niw.estimate.count == 0
    assert niw.update([], []).count == 0, "no row at all is no stream"


def test_a_batch_of_which_one_row_is_left_changes_nothing():
    niw = NIW(invalid="exclude")
    before = niw.update([0.5, 0.6], [1.0, 2.0])
    assert niw.update([0.5, 0.6], [1.0, 2.0], [True, False]) == before


class Mean(Estimator):
    """All there is to write."""

    def __init__(self, start=0.0, *, invalid="zero"):
        super().__init__(state=[start, start], invalid=invalid)
        self.start = start

    def absorb(self, reward, seconds):
        state = [self.state[0] + float(reward.sum()), self.state[1] + float(seconds.sum())]
        return state, RateEstimate.around(state[0] / state[1], 0.0, self.estimate.count + reward.size)


def test_an_estimator_of_your_own_is_one_method_and_resumes():
    mine = Mean()
    mine.update([1.0, 2.0], [3.0, 3.0])
    saved = json.loads(json.dumps(mine.state_dict()))
    other = Mean()
    other.load_state_dict(saved)
    assert other.update(3.0, 6.0) == mine.update(3.0, 6.0)
    assert mine.estimate.mean == 0.5
    assert saved["state"] == [3.0, 6.0], "a saved state is not the estimator's own list"
    with pytest.raises(InputError, match=r"settings\.start"):
        Mean(start=1.0).load_state_dict(saved)


def test_an_argument_that_is_not_kept_is_named():
    class Forgetful(Mean):
        def __init__(self, keep=3):
            super().__init__()

    with pytest.raises(InputError, match=r"keep = 'missing'.*add self\.keep = keep"):
        Forgetful().state_dict()


def test_an_estimate_in_words_says_the_mean_and_what_is_charged():
    assert str(RateEstimate.around(0.5, 0.0, 1200)) == "0.5 reward per second (95 %: 0.5 to 0.5; 1,200 rows)"
    assert str(RateEstimate(0.07, 0.05, 0.03, 0.08, 4)).endswith(
        "(95 %: 0.03 to 0.08; 4 rows), a second is charged 0.07"
    )
