"""A batch is priced exactly as the training loop prices it, and what never came back is not charged."""

import dataclasses
import json

import numpy as np
import pytest

import toy_agent

pytest.importorskip("sklearn", reason="needs the agent extra")

from rewardrate import config
from rewardrate.attempt import Outcome, Proposal
from rewardrate.environments import Environment
from rewardrate.errors import InputError
from rewardrate.runlog import Origin, RunLog
from rewardrate.sandbox import Pool
from rewardrate.scale import PricedBatch
from rewardrate.training.loop import Budget, Loop
from rewardrate.training.recipe import Recipe

ROWS = 6


@pytest.fixture
def recipe():
    return config.load(Recipe, config.find_recipe("laptop"), [f"batch={ROWS}"])


def outcomes(rng):
    found = []
    for n in range(ROWS):
        valid = bool(rng.random() < 0.7)
        reward = float(rng.random()) if valid else 0.0
        status = "ok" if valid else "error"
        found.append(
            Outcome(valid, reward, reward, float(0.1 + rng.random()), "told", status, f"print({n}, {rng.random()})")
        )
    return found


def test_rewards_rates_and_parents_are_those_of_the_loop_itself(recipe, tmp_path):
    """The loop runs on made outcomes; the batch is given the same, and must say what the loop's record says."""
    rng = np.random.default_rng(0)
    made = [outcomes(rng) for _ in range(4)]

    class Made(Environment):
        limit_seconds = 10.0
        step = 0

        def prompt(self, parent=None):
            return [{"role": "user", "content": parent.code if parent else "go"}]

        def stream(self, replies, parents=None):
            yield from enumerate(made[self.step])
            self.step += 1

    environment, pricer = Made(), recipe.make_pricer(Made())
    log, budget = RunLog.create(tmp_path / "run", "", {}), Budget(steps=len(made))
    with log:
        Loop(environment=environment, policy=toy_agent.Softmax(), pricer=pricer, log=log, budget=budget).run()
        batch = PricedBatch(recipe, Pool())
        for rows, step in zip(made, log.steps(), strict=True):
            priced = batch.price(rows)
            recorded = log.attempts(step.step)
            assert priced.relative == [row.relative_reward for row in recorded]
            assert priced.bonuses == [row.bonus for row in recorded]
            assert priced.metrics()["rate"] == step.rate.rate
    assert [one.attempt for one in batch.parents()] == [one.attempt for one in pricer.parents()]


def test_a_row_that_never_came_back_is_left_out_of_everything(recipe):
    rows = outcomes(np.random.default_rng(1))
    batch = PricedBatch(recipe, Pool())
    priced = batch.price([None, *rows[1:]])
    assert priced.rewards[0] is None
    assert None not in priced.rewards[1:]
    assert batch.pricer.chains.seconds[0] == 0
    assert priced.metrics()["left_out"] == 1


def test_a_saved_state_goes_on_as_if_nothing_had_happened(recipe):
    rng = np.random.default_rng(2)
    whole, half = PricedBatch(recipe, Pool()), PricedBatch(recipe, Pool())
    whole.price(outcomes(rng))
    half.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    rows = outcomes(rng)
    assert whole.price(rows).rewards == half.price(rows).rewards
    assert [s.attempt for s in whole.parents()] == [s.attempt for s in half.parents()]


def test_a_state_of_something_else_is_refused(recipe):
    batch = PricedBatch(recipe, Pool())
    for state in ({}, {"step": 1}, [1]):
        with pytest.raises(InputError, match="not the state of a batch"):
            batch.load_state_dict(state)


def test_a_state_of_another_task_or_with_a_damaged_part_is_refused_and_nothing_is_changed(recipe):
    rng = np.random.default_rng(4)
    batch = PricedBatch(recipe, Pool())
    batch.price(outcomes(rng))
    before = batch.state_dict()
    other = PricedBatch(dataclasses.replace(recipe, task="digits8x8"), Pool())
    other.price(outcomes(rng))
    with pytest.raises(InputError, match=r"state\.task = 'digits8x8': .*another task, and this is diamonds"):
        batch.load_state_dict(other.state_dict())
    fresh = PricedBatch(recipe, Pool())
    fresh.price(outcomes(rng))
    for damage in ({"step": -1}, {"chains": {}}, {"buffer": {"settings": before["buffer"]["settings"]}}):
        with pytest.raises(InputError, match="state"):
            batch.load_state_dict(fresh.state_dict() | damage)
    assert batch.state_dict() == before


def test_prompts_show_the_best_solutions_and_begin_without_one(recipe):
    batch = PricedBatch(recipe, Pool())
    assert batch.parents() == [None] * ROWS
    rows = [
        dataclasses.replace(row, valid=True, status="ok", code="print('mine')")
        for row in outcomes(np.random.default_rng(3))
    ]
    batch.price(rows)
    assert "print('mine')" in batch.prompt(batch.parents()[0])[-1]["content"]


def test_a_batch_of_another_size_is_refused_and_nothing_is_changed(recipe):
    batch = PricedBatch(recipe, Pool())
    with pytest.raises(InputError, match="a batch has 6 rows"):
        batch.price([None] * 5)
    assert batch.step == 0


def test_a_run_folder_holds_every_step_once_whatever_checkpoint_the_engine_went_back_to(recipe, tmp_path):
    """Recorded up to step 3; an engine whose checkpoint holds step 1 does the second again, and differently."""
    rng = np.random.default_rng(5)
    made = [outcomes(rng) for _ in range(3)]

    def work(batch, log, rows, text):
        parents = batch.parents()
        origins = [Origin() if one is None else Origin((), one.number, one.seed) for one in parents]
        proposals = [Proposal(f"{text} {row}", reply_tokens=(1, 2), seconds=0.5) for row in range(ROWS)]
        priced = batch.price(rows)
        batch.record(log, priced, proposals, origins, {"propose": 0.5})
        return priced

    first = PricedBatch(recipe, Pool())
    with RunLog.create(tmp_path / "run", "", {}) as log:
        work(first, log, made[0], "first")
        saved = json.loads(json.dumps(first.state_dict()))
        for rows in made[1:]:
            work(first, log, rows, "dropped")
    resumed = PricedBatch(recipe, Pool())
    resumed.load_state_dict(saved)
    with RunLog.open(tmp_path / "run") as log:
        priced = work(resumed, log, [None, *made[2][1:]], "again")
        assert [row.step for row in log.steps()] == [1, 2]
        rows = log.attempts(2)
        assert [row.id for row in rows] == list(range(ROWS + 1, 2 * ROWS + 1))
        assert [row.reply for row in rows] == [f"again {row}" for row in range(ROWS)]
        assert [row.relative_reward for row in rows] == priced.relative
        assert rows[0].status == "sandbox-failure"
        assert {row.tokens for row in rows} == {2}
        assert {row.parent for row in rows} <= {row.id for row in log.attempts(1) if row.valid}
        assert log.steps()[-1].metrics == pytest.approx(priced.metrics())
        assert log.steps()[-1].phases == {"propose": 0.5}
        assert [event.kind for event in log.events()] == ["rewound", "sandbox-failure"]


def test_a_recipe_whose_chains_do_not_wait_is_refused_where_an_engine_has_its_own_schedule(recipe):
    with (
        Pool() as pool,
        pytest.raises(InputError, match="schedule = 'stream': an engine that samples"),
    ):
        PricedBatch(dataclasses.replace(recipe, schedule="stream"), pool)
