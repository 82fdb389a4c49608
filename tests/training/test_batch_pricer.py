"""The pricer of many runs is the product's pricer, number for number."""

from dataclasses import replace

import numpy as np
import pytest

from rewardrate.attempt import Outcome
from rewardrate.environments.environment import RewardRules
from rewardrate.training.batch_pricer import NOTHING, BatchPricer, Buffers
from rewardrate.training.loop import Budget
from rewardrate.training.objective import Objective, Overhead
from rewardrate.training.recipe import Recipe

RUNS, BATCH, SCRIPTS, DEADLINE = 3, 16, 5, 40.0


class Rules(RewardRules):
    limit_seconds = 6.0


def recipe(arm="rpg", **changes):
    made = Recipe(
        task="diamonds", batch=BATCH, copies="all", buffer_batches=2, budget=Budget(script_seconds=BATCH * DEADLINE)
    )
    return replace(made, **changes).with_arm(arm)


def draw(rng):
    """Scripts, rewards, seconds and validity with many ties."""
    script = rng.integers(SCRIPTS, size=(RUNS, BATCH))
    valid = rng.random((RUNS, BATCH)) < 0.6
    reward = np.where(valid, rng.integers(1, 5, (RUNS, BATCH)) / 4, 0.0)
    return script, reward, rng.integers(1, 13, (RUNS, BATCH)) / 2, valid


@pytest.mark.parametrize(
    "made",
    [
        recipe("vanilla"),
        recipe(),
        recipe("horizon"),
        recipe(objective=Objective(price_scale=0.5, penalty=-1.0, invalid_charge="measured")),
        recipe(objective=Objective(price_in="buffer")),
        recipe(objective=Objective(price_in="reward", bonus=0.0)),
        recipe(overhead=Overhead(seconds=1.5), window=3, invalid_in_fit="exclude"),
    ],
    ids=["vanilla", "rate", "horizon", "half, measured", "in the buffer", "in the reward", "overhead, window"],
)
def test_prices_rewards_and_parents_are_those_of_the_product(made):
    rng = np.random.default_rng(7)
    batch = BatchPricer(made, RUNS, deadline=DEADLINE, limit_seconds=Rules.limit_seconds)
    single = [replace(made, seed=run).make_pricer(Rules()) for run in range(RUNS)]
    for step in range(1, 13):
        script, reward, seconds, valid = draw(rng)
        parents = batch.parents()
        found = batch.price(script, reward, seconds + made.overhead.seconds, valid, np.ones(RUNS, bool))
        for run, pricer in enumerate(single):
            shown = [NOTHING if one is None else int(one.code) for one in pricer.parents()]
            assert parents[run].tolist() == shown
            outcomes = [
                Outcome(bool(ok), float(r), float(r), float(d), "", "ok" if ok else "error", str(code))
                for code, r, d, ok in zip(script[run], reward[run], seconds[run], valid[run], strict=True)
            ]
            charged = [pricer.charged(outcome, 0.0) for outcome in outcomes]
            priced = pricer.price(charged, step=step, attempts=range(step * BATCH, (step + 1) * BATCH))
            assert batch.price_G[run] == priced.price
            assert found[run].tolist() == priced.rewards
    assert len(single[0].buffer) == 2 * BATCH


def test_a_run_that_is_not_active_keeps_its_price_and_its_full_buffer():
    rng = np.random.default_rng(1)
    batch = BatchPricer(recipe(), RUNS, deadline=DEADLINE, limit_seconds=6.0)
    everyone = np.ones(RUNS, bool)
    for _ in range(6):
        batch.price(*draw(rng), everyone)
    before, parents = batch.price_G.copy(), batch.parents()
    batch.price(*draw(rng), np.array([True, False, True]))
    assert batch.price_G[1] == before[1]
    assert batch.price_G[0] != before[0]
    assert batch.parents()[1].tolist() == parents[1].tolist()


def test_an_empty_buffer_shows_nothing_and_has_no_best_reward():
    empty = Buffers(2, 4)
    assert (empty.select(3) == NOTHING).all()
    assert (empty.best_reward == -np.inf).all()
