"""The forecast: what it draws, what a pilot changes, and what it says."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.training import forecast as room
from rewardrate.training.forecast import Known, cautions, draw_agents, fit, forecast, interval, plan, power, verdict
from rewardrate.training.measured import Pilot, Scripts
from rewardrate.training.recipe import Recipe
from rewardrate.training.simulation import HORIZON, NONE, PRICES, RATE, SimulatedRun, simulate

RECIPE = config.load(Recipe, config.find_recipe("deadline"), ["batch=8", "estimator.batches=50"])
ONES = np.ones(3)
SCRIPTS = Scripts(np.array([0.5, 0.9, 1.0]), np.array([0.4, 2.0, 8.0]), 0.03 * ONES, 0.15 * ONES, ONES)
SETTING = SimulatedRun(RECIPE, 30.0, 12.0)


def small(**changes):
    settings = {"agents": 6, "repetitions": 2, "prices": (NONE, RATE, HORIZON), "seed": 1} | changes
    return plan(SETTING, SCRIPTS, **settings)


def made_pilot(agents, steps=12):
    """What one of our own agents would do, as a pilot."""
    recipe = RECIPE.with_arm("vanilla")
    by_step = simulate(agents, SimulatedRun(recipe, 76.0, 12.0), NONE, seed=99, steps=steps).by_step
    return Pilot(recipe, by_step.mean(axis=1))


def test_what_is_stated_takes_the_place_of_its_range_and_the_rest_stays_inside():
    drawn = draw_agents(SCRIPTS, 200, seed=0, known=Known(0.1, 20))
    assert (drawn.valid_share == 0.1).all()
    assert (drawn.learning_steps == 20).all()
    for name in ("script_speed", "copying", "parent_help", "difficulty", "no_program"):
        low, high = room.RANGES[name]
        assert low <= getattr(drawn, name).min() < getattr(drawn, name).max() <= high
    assert (drawn.ceiling >= 0.1 + 0.5 * 0.9).all()
    np.testing.assert_allclose(drawn.start.sum(axis=1), 1.0)
    assert (drawn.reward <= SCRIPTS.reward).all()


@pytest.mark.parametrize("known", [{"valid_share": 0.0}, {"valid_share": 1.5}, {"learning_steps": 0.0}])
def test_what_cannot_be_is_refused(known):
    with pytest.raises(InputError, match=next(iter(known))):
        Known(**known)


def test_the_same_seed_gives_the_same_forecast():
    one, other = small(), small()
    assert one.rows == other.rows
    assert small(seed=2).rows != one.rows


def test_the_price_none_differs_in_nothing_from_itself_and_is_compared_with_nothing():
    row = small().first
    assert (row.difference, row.low, row.high, row.seeds) == (0.0, 0.0, 0.0, None)
    assert sum(one.best for one in small().rows) >= 1.0


def test_a_pilot_that_learns_fast_is_told_from_one_that_learns_slowly():
    drawn = draw_agents(SCRIPTS, 300, seed=3)
    medians = []
    for steps in (2.0, 50.0):
        agents = draw_agents(SCRIPTS, 16, seed=5, known=Known(0.2, steps))
        fitted = fit(drawn, made_pilot(agents), 30, seed=0)
        medians.append(float(np.median(fitted.learning_steps)))
    assert fitted.runs == 30
    assert medians[0] < 5 < 15 < medians[1]


def test_a_pilot_says_its_first_valid_share_and_what_is_stated_is_stronger():
    pilot = made_pilot(draw_agents(SCRIPTS, 16, seed=5, known=Known(0.6, 10)))
    assert draw_agents(SCRIPTS, 400, seed=0, pilot=pilot).valid_share.mean() == pytest.approx(
        pilot.first[0] / 8, abs=0.06
    )
    stated = draw_agents(SCRIPTS, 4, seed=0, pilot=pilot, known=Known(valid_share=0.3))
    assert (stated.valid_share == 0.3).all()
    heard = []
    found = small(pilot=replace(pilot, recipe=RECIPE.with_arm("rpg")), on_progress=heard.append)
    assert found.agents == 6
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)


def test_the_interval_leaves_out_the_noise_of_single_runs():
    rng = np.random.default_rng(0)
    wide = interval(0.1 + 0.1 * rng.standard_normal((2000, 1)) + 0.2 * rng.standard_normal((2000, 4)))
    # Expectations N(0.1, 0.1): 80 % within 1.28 s.d.; the means of four seeds alone would spread by sqrt(2) as much.
    assert wide[1] - wide[0] == pytest.approx(2 * 1.2816 * 0.1, rel=0.1)
    noise = interval(0.1 + 0.2 * rng.standard_normal((2000, 4)))
    assert 0 < noise[1] - noise[0] < 0.06
    assert interval(np.zeros((5, 2))) == (0.0, 0.0)
    assert interval(np.full((1, 2), 0.5)) == (0.5, 0.5)


def test_seeds_are_those_of_the_two_sample_test():
    # Power of the two-sided z test with that many seeds, by its own formula.
    for difference, variance in ((0.1, 0.02), (-0.05, 0.01), (0.02, 0.01)):
        n = room.seeds_needed(difference, variance)
        reached = [
            0.5 * math.erfc((1.96 - abs(difference) / math.sqrt(variance / m)) / math.sqrt(2)) for m in (n, n - 1)
        ]
        assert reached[0] >= 0.7999
        assert reached[1] < 0.8001
    assert room.seeds_needed(1.0, 0.0) == 2
    assert room.seeds_needed(0.0, 1.0) is None


def test_what_it_says():
    found = small(prices=PRICES)
    assert verdict(found).endswith(".")
    ahead = replace(found.rows[3], low=0.01, difference=0.02, reward=9.0)
    assert "rate is expected ahead of none by +0.020" in verdict(replace(found, rows=(found.first, ahead)))
    assert "no price is expected ahead" in verdict(replace(found, rows=(found.first,)))
    unclear = replace(ahead, low=-0.01, seeds=5000)
    assert "no price is clearly ahead" in verdict(replace(found, rows=(found.first, unclear)))
    assert "more than 1,000 seeds" in power(unclear, found.first)
    assert "about 12 seeds" in power(replace(unclear, seeds=12), found.first)
    assert "no difference" in power(replace(unclear, seeds=None), found.first)
    odd = replace(RECIPE, copies="one", sandbox=replace(RECIPE.sandbox, clock="warm"))
    odd = replace(odd, overhead=replace(odd.overhead, generation=True))
    few = replace(found, rows=(replace(found.first, top_share=0.9, steps=2.0),))
    words = " ".join(cautions(few, SimulatedRun(odd, 30.0, 12.0)))
    for part in ("knows no code", "one script", "too few", 'copies = "one"', "generation", "warm"):
        assert part in words


def test_repetitions_below_two_are_refused():
    with pytest.raises(InputError, match="repetitions"):
        forecast(draw_agents(SCRIPTS, 2, seed=0), SETTING, repetitions=1)
