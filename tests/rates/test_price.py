"""What every price promises: told a step, it answers with a number; its state resumes it."""

import json
import math

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import FixedPrice, Horizon, PriceRule, RatePrice

PRICES = {"rate": RatePrice, "horizon": Horizon, "fixed": lambda: FixedPrice(0.25)}


@pytest.mark.parametrize("name", PRICES)
def test_every_price_is_finite_never_negative_and_resumes_from_json(name):
    rng = np.random.default_rng(0)
    straight, resumed = PRICES[name](), PRICES[name]()
    assert isinstance(straight, PriceRule)
    assert straight.name == name
    for step in range(8):
        fresh = PRICES[name]()
        fresh.load_state_dict(json.loads(json.dumps(resumed.state_dict(), allow_nan=False)))
        resumed = fresh
        reward, seconds = rng.random(4) * (rng.random(4) < 0.7), 0.1 + rng.random(4)
        told = {"rate": 0.1 * step, "chains": 4, "deadline": 5.0}
        price = straight.update(reward, seconds, **told)
        assert math.isfinite(price)
        assert price >= 0
        assert resumed.update(reward, seconds, **told) == price


def test_the_reward_rate_is_charged_as_it_is_and_a_fixed_price_whatever_happens():
    for rate, deadline in ((0.0, None), (3.5, 9.0)):
        assert RatePrice().update([1.0], [2.0], rate=rate, chains=1, deadline=deadline) == rate
        assert FixedPrice(0.25).update([1.0], [2.0], rate=rate, chains=1, deadline=deadline) == 0.25


def test_a_price_that_needs_a_deadline_says_so():
    with pytest.raises(InputError, match="deadline = None: it must be finite and positive"):
        Horizon().update([1.0], [2.0], rate=0.0, chains=1, deadline=None)
