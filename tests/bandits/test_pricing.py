"""Compiled estimators on gated slots: the same as those of `rates`."""

import numpy as np
import pytest

from rewardrate.bandits.pricing import HEAD, POSTERIOR, PRICE, feed, memory_of, settings_of
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Estimator, Fixed, RobbinsMonro, Totals

SLOTS = 8


def both(estimator, age, steps=400, every=8):
    """Prices of the compiled estimator and of the real one on the same greedy samples."""
    rng = np.random.default_rng(3)
    memory, settings = memory_of(estimator, SLOTS), settings_of(estimator, SLOTS, age, every)
    slots = Accumulators(SLOTS, age=age)
    prices = []
    for t in range(1, steps + 1):
        if rng.random() < 0.4:
            continue
        reward, seconds = rng.gamma(2.0), rng.lognormal()
        feed(memory, settings, t, reward, seconds, np.uint64(t))
        slots.feed(reward, seconds, step=t)
        if t % every == 0 and (slots.seconds > 0).sum() >= 2:
            slots.fit(estimator)
        prices.append((memory[PRICE], estimator.estimate.rate))
    return memory, np.array(prices)


@pytest.mark.parametrize("age", [1, 30, 10_000])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (RobbinsMonro, {}),
        (RobbinsMonro, {"power": 0.8, "floor": 0.1}),
        (Totals, {}),
        (Totals, {"forgetting": 0.7}),
        (Fixed, {"rate": 0.4}),
    ],
)
def test_prices_are_those_of_the_estimator_to_rounding(kind, settings, age):
    _, prices = both(kind(**settings), age)
    assert len(prices) > 200
    assert prices[:, 0] == pytest.approx(prices[:, 1], rel=1e-11)


@pytest.mark.parametrize("age", [1, 30, 10_000])
@pytest.mark.parametrize("floor", [4.0, None])
def test_the_posterior_is_that_of_niw_to_rounding(age, floor):
    """Slots, restarts, refits, discount and conjugacy; the charged quantile is drawn, so it is compared elsewhere."""
    estimator = NIW(dof_floor=floor, batches=50, forgetting=0.5)
    memory, prices = both(estimator, age)
    real = estimator.posterior
    expected = [real.kappa, real.nu, *real.mu, real.psi[0, 0], real.psi[0, 1], real.psi[1, 1]]
    assert memory[POSTERIOR : POSTERIOR + 7] == pytest.approx(expected, rel=1e-9)
    assert (prices[20:, 0] / prices[20:, 1]).mean() == pytest.approx(1.0, abs=0.15)


def test_a_slot_restarts_when_it_is_older_than_its_age():
    memory, settings = memory_of(Totals(), 2), settings_of(Totals(), 2, 3, 8)
    for t in (1, 2, 3, 4):
        feed(memory, settings, t, 1.0, 1.0, np.uint64(0))
    assert memory[HEAD : HEAD + 2].tolist() == [2.0, 2.0]
    feed(memory, settings, 5, 1.0, 1.0, np.uint64(0))  # slot 0 was born at 1: four steps, too old
    assert memory[HEAD : HEAD + 2].tolist() == [1.0, 2.0]


def test_one_filled_slot_is_not_fitted():
    memory, settings = memory_of(NIW(), SLOTS), settings_of(NIW(), SLOTS, 10, 8)
    feed(memory, settings, 8, 1.0, 1.0, np.uint64(0))
    assert memory[PRICE] == 0.0
    feed(memory, settings, 16, 1.0, 1.0, np.uint64(0))
    assert memory[PRICE] > 0.0


def test_an_estimator_without_a_compiled_twin_is_refused():
    class Mine(Totals):
        pass

    with pytest.raises(InputError, match="the laboratory compiles NIW, RobbinsMonro, Totals, Fixed"):
        settings_of(Mine(), SLOTS, 10, 8)
    assert issubclass(Mine, Estimator)
