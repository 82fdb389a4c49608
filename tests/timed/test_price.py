"""The price of a stream: fitted round by round, the same after saving, unchanged by what it refuses."""

import json

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.rates.renewal import Renewal
from rewardrate.timed import Price

PROCESS = Renewal()


def stream(size, seed=0):
    return PROCESS.draw(np.random.default_rng(seed), size)


def test_the_price_is_the_ratio_of_totals_of_all_full_rounds():
    reward, seconds = stream(1000)
    price = Price("totals", every=256)
    for r, s in zip(reward, seconds, strict=True):
        price.add(r, s)
    assert price.rate == pytest.approx(reward[:768].sum() / seconds[:768].sum(), rel=1e-12)


def test_within_a_round_the_price_stands_still():
    price = Price("totals", every=100)
    seen = {price.add(*(float(x[0]) for x in stream(1, seed))) for seed in range(99)}
    assert seen == {0.0}
    assert price.add(1.0, 1.0) > 0


@pytest.mark.parametrize("name", sorted(rates.ESTIMATORS))
def test_any_estimator_prices_a_stream_step_by_step_or_in_vectors(name):
    reward, seconds = stream(2048)
    single, vector = Price(name, chains=8, every=512), Price(name, chains=8, every=512)
    for row in range(0, 2048, 8):
        for k in range(8):
            single.add(reward[row + k], seconds[row + k])
        vector.add(reward[row : row + 8], seconds[row : row + 8], np.arange(8))
    for price in (single, vector):
        assert price.rate == pytest.approx(PROCESS.rate if name != "fixed" else 0.0, rel=0.2)


@pytest.mark.parametrize("name", sorted(rates.ESTIMATORS))
def test_a_saved_price_goes_on_bit_for_bit_from_the_middle_of_a_round(name):
    reward, seconds = stream(900)
    whole, half = Price(name, every=128), Price(name, every=128)
    for price in (whole, half):
        price.add(reward[:500], seconds[:500])
    again = Price(name, every=128)
    again.load_state_dict(json.loads(json.dumps(half.state_dict())))
    for k in range(500, 900):
        assert again.add(reward[k], seconds[k]) == whole.add(reward[k], seconds[k])
    assert again.state_dict() == whole.state_dict()


def test_a_state_of_another_price_or_a_damaged_one_is_refused_and_changes_nothing():
    price = Price("totals", every=64)
    price.add(*stream(100))
    before = price.state_dict()
    other = Price("robbins-monro", every=64).state_dict()
    damaged = [
        (None, "not the state of a price"),
        ({}, "not the state of a price"),
        ({**before, "settings": {"chains": 4}}, "this price has.*as the saved one was made"),
        (Price("totals", every=64, charge="mean").state_dict(), "'charge': 'mean'"),
        (Price("totals", every=64, price_scale=0.5).state_dict(), "'price_scale': 0.5"),
        ({**before, "estimator": other["estimator"]}, "this is a Totals"),
        ({**before, "round": {"reward": [0.0], "seconds": [0.0], "steps": 0}}, "8 finite totals"),
        ({**before, "round": {**before["round"], "seconds": [-1.0] * 8}}, "cannot be restored"),
        ({**before, "round": 7}, "cannot be restored"),
        ({**before, "totals": {}}, "state.settings"),
    ]
    for state, words in damaged:
        with pytest.raises(InputError, match=words):
            price.load_state_dict(state)
        assert price.state_dict() == before


@pytest.mark.parametrize(
    ("reward", "seconds", "field"),
    [
        (np.nan, 1.0, r"reward\[0\]"),
        (1.0, np.inf, r"seconds\[0\]"),
        (1.0, -1.0, r"seconds\[0\]"),
        ([1.0, 1.0], [1.0, 0.0], r"seconds\[1\]"),
        ([1.0], [1.0, 2.0], "seconds"),
        ("much", 1.0, "reward"),
        (1e308, 1e308, "reward, seconds"),
    ],
)
def test_a_bad_row_is_refused_by_name_and_changes_nothing(reward, seconds, field):
    price = Price("totals", every=64)
    price.add([1e308, 1.0], [1e308, 1.0])
    before = price.state_dict()
    with pytest.raises(InputError, match=field):
        price.add(reward, seconds)
    assert price.state_dict() == before


def test_a_round_that_the_estimator_refuses_changes_nothing():
    price = Price("totals", every=2, chains=1)
    price.add(1.0, 1e-200)
    before = price.state_dict()
    with pytest.raises(InputError, match="64-bit"):
        price.add(1e308, 1e-200)
    assert price.state_dict() == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"estimator": "totls"}, "did you mean 'totals'"),
        ({"estimator": 0.3}, r"an estimator of `rates`.*rates.Fixed\(price\)"),
        ({"estimator": [3]}, "an estimator of `rates`"),
        ({"estimator": "totals", "window": 2}, "Totals takes single rows.*forgetting"),
        ({"window": 2}, "would not see the window"),
        ({"estimator": "niw", "chains": 1}, "NIW compares chains"),
        ({"chains": 0}, "chains = 0"),
        ({"every": 0}, "every = 0"),
        ({"chains": 8, "every": 4}, "a step for each of the 8 chains"),
        ({"charge": "men"}, "did you mean 'mean'"),
        ({"price_scale": -1.0}, "price_scale = -1"),
        ({"estimator": "niw", "window": 0}, "window = 0"),
    ],
)
def test_a_wrong_setting_is_named(settings, words):
    with pytest.raises(InputError, match=words):
        Price(**settings)


def test_whose_a_step_is_must_be_one_of_the_chains():
    price = Price("totals", chains=2)
    for chain in ([2], [-1], [0.0], [0, 1]):
        with pytest.raises(InputError, match="numbers from 0 to 1"):
            price.add(1.0, 1.0, chain)
    assert price.add([], []) == 0.0


def test_costs_have_a_negative_price_only_if_the_mean_is_charged():
    never, mean = (Price("totals", every=8, charge=charge) for charge in ("rate", "mean"))
    for price in (never, mean):
        price.add(np.full(8, -3.0), np.full(8, 2.0))
    assert never.rate == 0.0
    assert mean.rate == -1.5
    assert mean.relative(np.array([-3.0]), np.array([2.0]))[0] == 0.0


def test_the_scale_multiplies_the_price():
    price = Price("totals", every=8, price_scale=0.25)
    price.add(np.full(8, 3.0), np.full(8, 2.0))
    assert price.rate == 0.375


def test_a_charge_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="64-bit"):
        Price(rates.Fixed(1e200)).relative(np.array([0.0]), np.array([1e200]))


def test_the_default_price_follows_a_policy_that_gets_faster():
    follows, lags = Price(every=64), Price("totals", every=64)
    for price in (follows, lags):
        for factor in (1.0, 4.0):
            reward, seconds = PROCESS.faster(factor).draw(np.random.default_rng(1), 64 * 40)
            for k in range(0, reward.size, 64):
                price.add(reward[k : k + 64], seconds[k : k + 64])
    true = PROCESS.faster(4.0).rate
    assert follows.rate == pytest.approx(true, rel=0.1)
    assert lags.rate < 0.5 * true


def test_a_window_forgets_old_rounds():
    price = Price("niw", every=64, window=2)
    for factor in (1.0, 4.0):
        for seed in range(10):
            price.add(*PROCESS.faster(factor).draw(np.random.default_rng(seed), 64))
    assert price.estimate.mean == pytest.approx(PROCESS.faster(4.0).rate, rel=0.15)
    assert "window=2, charge='rate', price_scale=1.0" in repr(price)
