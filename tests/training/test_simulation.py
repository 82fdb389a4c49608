"""The simulation: what must hold whatever the scripts are."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.reports.evaluation import Chains
from rewardrate.training import simulation
from rewardrate.training.loop import Budget
from rewardrate.training.objective import Objective
from rewardrate.training.recipe import Recipe
from rewardrate.training.simulation import (
    HORIZON,
    NONE,
    PRICES,
    RATE,
    Agents,
    SimulatedPrice,
    SimulatedRun,
    logits,
    simulate,
)

RUNS = 6


def agents(reward=(0.4, 0.8, 1.0), seconds=(0.5, 2.0, 8.0), runs=RUNS, **changes):
    wide = np.ones((runs, 1))
    scripts = len(reward)
    made = Agents(
        reward=np.array(reward) * wide,
        seconds=np.array(seconds) * wide,
        start=np.full((runs, scripts), 1 / scripts),
        reward_spread=np.full((runs, scripts), 0.02),
        seconds_spread=np.full((runs, scripts), 0.1),
        **{
            name: np.full(runs, value)
            for name, value in {
                "valid_share": 0.3, "ceiling": 0.95, "learning_steps": 5.0, "script_speed": 1.0, "copying": 1.0,
                "parent_help": 0.5, "difficulty": 0.5, "no_program": 0.4,
            }.items()
        },
    )  # fmt: skip
    return replace(made, **changes)


def setting(budget=40.0, limit=12.0, **objective):
    recipe = Recipe(task="diamonds", batch=8, budget=Budget(steps=1), objective=Objective(**objective))
    return SimulatedRun(recipe, budget, limit)


def same(one, other):
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_a_price_of_scale_zero_is_no_price():
    made, here = agents(), setting()
    same(simulate(made, here, NONE, seed=1), simulate(made, here, SimulatedPrice("rate x 0", "rpg", 0.0), seed=1))


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    made, here = agents(), setting()
    same(simulate(made, here, RATE, seed=3), simulate(made, here, RATE, seed=3))
    assert (simulate(made, here, RATE, seed=4).value != simulate(made, here, RATE, seed=3).value).any()


@pytest.mark.parametrize("price", PRICES[1:], ids=lambda price: price.name)
def test_where_every_attempt_takes_the_same_seconds_no_price_changes_anything(price):
    # No attempt fails (a failure would end sooner), so a price takes the same from all: advantages and ranks stay, and
    # on common draws the runs are equal but for rounding.
    made = agents(seconds=(2.0, 2.0, 2.0), seconds_spread=np.zeros((RUNS, 3)), no_program=np.zeros(RUNS))
    here = setting(limit=2.5, invalid_charge="measured")
    always = replace(made, ceiling=np.full(RUNS, 1.0), valid_share=np.full(RUNS, 0.9999))
    none, priced = (simulate(always, here, one, seed=2) for one in (NONE, price))
    np.testing.assert_allclose(priced.value, none.value, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(priced.steps, none.steps)


@pytest.mark.parametrize("price", [NONE, HORIZON], ids=lambda price: price.name)
def test_units_of_reward_and_of_seconds_do_not_matter(price):
    # Factors are powers of two, so that rounding is the same. NIW's prior has units; its rate is left out here, and the
    # floor of 0.1 s as well.
    made, here = agents(no_program=np.zeros(RUNS)), setting(bonus=0.5, penalty=-10.0)
    scaled = replace(made, reward=4 * made.reward, reward_spread=4 * made.reward_spread, seconds=8 * made.seconds)
    there = setting(budget=320.0, limit=96.0, bonus=2.0, penalty=-40.0)
    one, other = simulate(made, here, price, seed=5), simulate(scaled, there, price, seed=5)
    np.testing.assert_allclose(other.value, 4 * one.value, rtol=1e-9)
    np.testing.assert_array_equal(other.steps, one.steps)


def test_nothing_has_ended_within_a_tiny_budget():
    found = simulate(agents(), setting(budget=0.05), NONE, seed=0)
    assert (found.value == 0).all()
    assert (found.steps == 1).all()
    assert np.isfinite(found.late).all()


def test_the_first_valid_share_is_the_stated_one_also_with_scripts_that_gain_nothing():
    made = agents(reward=(0.0, 0.5, 1.0), ceiling=np.full(RUNS, 0.9))
    ok = 0.9 / (1 + np.exp(-logits(made)))
    np.testing.assert_allclose((made.start * ok * (made.reward > 0)).sum(axis=1), 0.3, atol=1e-6)
    many = agents(runs=400)
    first = simulate(many, setting(), NONE, seed=0, steps=1).by_step[0, :, 0]
    assert abs(first.mean() - 0.3) < 0.03  # 3,200 attempts: 3.7 standard errors


def test_learning_raises_the_valid_share_and_a_price_lowers_the_seconds():
    made, here = agents(runs=16), setting(budget=80.0)
    none, rate = simulate(made, here, NONE, seed=0), simulate(made, here, RATE, seed=0)
    assert none.by_step[:, :, 0].mean(axis=1)[20] > 0.6
    assert rate.late[:, 0].mean() < 0.8 * none.late[:, 0].mean()
    assert rate.steps.mean() > none.steps.mean()


def test_the_value_at_t_is_that_of_the_evaluation():
    made, here = agents(runs=2), setting(budget=30.0)
    runs = simulation._Runs(made, here, NONE, 9)
    rewards, ends = [], []
    record = runs._record

    def recorded(script, reward, seconds, valid, active):
        record(script, reward, seconds, valid, active)
        rewards.append(np.where(active[:, None], np.where(valid, reward, np.nan), np.nan))
        ends.append(runs.used.copy())

    runs._record = recorded
    for step in range(1, 200):
        active = runs.used.sum(axis=1) < 30.0 * 8
        if not active.all():
            break
        runs.step(step, active)
    for run in range(2):
        chains = Chains(np.array(rewards)[:, run], np.array(ends)[:, run])
        for place, share in enumerate(simulation.SHARES):
            assert runs.result().value[run, place] == pytest.approx(chains.at_end(30.0 * share).mean())


def test_a_bad_budget_is_one_clear_error(monkeypatch):
    for budget in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="budget"):
            setting(budget=budget)
    monkeypatch.setattr(simulation, "MOST_STEPS", 3)
    with pytest.raises(InputError, match="more than 3 steps"):
        simulate(agents(), setting(), NONE, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("valid_share", "learning_steps", "budget", "ahead"), [(0.05, 40.0, 400.0, True), (0.6, 8.0, 100.0, False)]
)
def test_a_price_pays_where_learning_is_slow_and_failures_run_long_and_not_where_it_is_fast(
    valid_share, learning_steps, budget, ahead
):
    # Measured on 40 agents: 0.656 against 0.387, and 0.730 against 0.874.
    runs = 16
    made = agents(
        reward=(0.75, 0.85, 0.93, 0.97, 1.0),
        seconds=(0.4, 1.0, 4.0, 12.0, 40.0),
        runs=runs,
        valid_share=np.full(runs, valid_share),
        learning_steps=np.full(runs, learning_steps),
        difficulty=np.zeros(runs),
        copying=np.full(runs, 2.5),
        parent_help=np.full(runs, 1.5),
        no_program=np.zeros(runs),
    )
    here = setting(budget=budget, limit=60.0)
    rate, none = (simulate(made, here, price, seed=0).value[:, -1].mean() for price in (RATE, NONE))
    assert (rate > none + 0.1) if ahead else (rate < none - 0.05)
