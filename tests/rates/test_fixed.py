"""A price that never moves."""

import pytest

from rewardrate.errors import InputError
from rewardrate.rates import Fixed


def test_the_price_stays_and_the_rows_are_counted():
    fixed = Fixed(0.25)
    assert fixed.estimate.rate == 0.25
    assert fixed.update([100.0, 200.0], [1.0, 1.0]).rate == 0.25
    assert fixed.estimate.count == 2


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_price_must_be_finite_and_not_negative(rate):
    with pytest.raises(InputError, match="rate"):
        Fixed(rate)
