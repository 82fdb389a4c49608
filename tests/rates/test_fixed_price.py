"""A price that is stated."""

import math

import pytest

from rewardrate.errors import InputError
from rewardrate.rates import FixedPrice


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf, "0.1", None])
def test_a_number_that_is_no_price_is_refused(wrong):
    with pytest.raises(InputError, match="reward_per_second"):
        FixedPrice(wrong)


def test_it_has_no_state():
    assert FixedPrice(0.5).state_dict() == {}
