"""Bands of a mean."""

import numpy as np
import pytest

from rewardrate.bandits.bootstrap import band
from rewardrate.errors import InputError


def test_the_band_covers_the_true_mean_about_as_often_as_it_says():
    """300 samples of 100; 95 % nominal, percentile bootstrap: between 90 % and 98.5 %."""
    rng = np.random.default_rng(0)
    table = rng.exponential(size=(100, 300))
    low, high = band(table, resamples=800)[1:]
    assert 0.90 < ((low < 1) & (high > 1)).mean() < 0.985


def test_mean_and_order():
    table = np.random.default_rng(1).normal(size=(30, 5))
    result = band(table)
    assert result.mean == pytest.approx(table.mean(axis=0))
    assert (result.low < result.mean).all()
    assert (result.mean < result.high).all()


def test_the_same_table_gives_the_same_band():
    table = np.random.default_rng(2).normal(size=(20, 3))
    assert (band(table).low == band(table).low).all()


def test_blocks_of_resamples_change_nothing(monkeypatch):
    table = np.random.default_rng(3).normal(size=(20, 3))
    whole = band(table, resamples=101)
    monkeypatch.setattr("rewardrate.bandits.bootstrap.WEIGHTS", 200)
    parts = band(table, resamples=101)
    assert np.allclose(whole.low, parts.low, rtol=1e-12)
    assert np.allclose(whole.high, parts.high, rtol=1e-12)


def test_one_trial_has_no_width():
    assert band(np.array([[3.0]])).low[0] == band(np.array([[3.0]])).high[0] == 3.0


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.zeros(3), {}),
        (np.zeros((0, 3)), {}),
        (np.zeros((2, 2)), {"level": 1.0}),
        (np.zeros((2, 2)), {"resamples": 0}),
    ],
)
def test_what_is_no_table_is_refused(values, options):
    with pytest.raises(InputError):
        band(values, **options)
