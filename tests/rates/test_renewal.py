"""The process that estimators are tried on has the rate it claims."""

import numpy as np
import pytest

from rewardrate.rates.renewal import Renewal


def test_the_claimed_rate_is_the_ratio_of_a_million_draws():
    """Standard error 0.05 %; tolerance five of them."""
    reward, seconds = Renewal().draw(np.random.default_rng(0), 1_000_000)
    assert reward.sum() / seconds.sum() == pytest.approx(Renewal().rate, rel=2.5e-3)


def test_four_times_faster_earns_four_times_the_rate():
    assert Renewal().faster(4.0).rate == pytest.approx(4 * Renewal().rate)
