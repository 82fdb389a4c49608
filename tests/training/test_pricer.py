"""One step for every engine: what the loop recorded is what the pricer says again, and its state is all there is."""

import json
from dataclasses import replace

import numpy as np
import pytest

import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.environments.environment import KnownSolution, RewardRules
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Fixed, FixedPrice, Horizon
from rewardrate.rates.settings import NeuralSettings
from rewardrate.training.buffer import SolutionBuffer
from rewardrate.training.objective import Objective, Overhead
from rewardrate.training.pricer import Pricer

ROWS = 4


class Rules(RewardRules):
    limit_seconds = 10.0


def pricer(estimator=None, rules=None, **settings):
    objective = settings.pop("objective", None) or Objective()
    buffer = settings.pop("buffer", SolutionBuffer(8))
    return Pricer(rules or Rules(), objective, estimator or NIW(), Accumulators(ROWS), buffer=buffer, **settings)


def outcome(reward, seconds, code, status="ok"):
    return Outcome(status == "ok", reward, reward, seconds, "", status, code)


def batch(rng, step):
    return [
        outcome(
            float(rng.random()), float(0.1 + rng.random()), f"{step} {row}", "ok" if rng.random() < 0.7 else "error"
        )
        for row in range(ROWS)
    ]


def test_what_the_loop_has_on_record_is_what_a_pricer_says_of_the_same_outcomes(tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=5, batch=8)
    with loop.log:
        loop.run()
        again = toy_agent.loop(tmp_path / "other", steps=5, batch=8)
        again.log.close()
        for step in loop.log.steps():
            rows = loop.log.attempts(step.step)
            outcomes = [outcome(row.reward, row.seconds, row.code, row.status) for row in rows]
            priced = again.pricer.price(outcomes, step=step.step, attempts=[row.id for row in rows])
            assert priced.relative == [row.relative_reward for row in rows]
            assert priced.bonuses == [row.bonus for row in rows]
            assert priced.rate.rate == step.rate.rate


def test_a_failure_of_the_sandbox_has_no_reward_and_a_failure_of_the_policy_pays_for_limit_and_overhead():
    made = pricer(Fixed(0.1), overhead=Overhead(seconds=2.0, generation=True))
    rows = [outcome(1.0, 4.0, "a"), outcome(0.0, 1.0, "b", "error"), outcome(0.0, 1.0, "c", "sandbox-failure")]
    spent = [0.5, 0.5, 0.5, 0.5]
    rows = [made.charged(row, seconds) for row, seconds in zip([*rows, outcome(2.0, 5.0, "d")], spent, strict=True)]
    priced = made.price(rows, step=1, attempts=range(1, 5), generation_seconds=spent)
    assert priced.relative == [
        pytest.approx(1 - 0.1 * 6.5),
        pytest.approx(-10 - 0.1 * (10 + 2.5)),
        None,
        pytest.approx(2 - 0.1 * 7.5),
    ]
    assert priced.bonuses == [0.5, 0.0, 0.0, 0.5]
    assert priced.rewards[2] is None
    assert priced.metrics() == pytest.approx(
        {
            "rate": 0.1,
            "price": 0.1,
            "valid_share": 0.5,
            "left_out": 1.0,
            "priced_reward": (0.85 - 11.25 + 1.75) / 3,
            "seconds": (6.5 + 3.5 + 7.5) / 3,
            "reward": 1.0,  # of the attempts that have seconds, a failure counts 0
        }
    )


def test_a_saved_state_resumes_with_the_same_numbers():
    rng, whole, half = np.random.default_rng(0), pricer(price=Horizon(), deadline=50.0), None
    for step in range(1, 6):
        rows, numbers = batch(rng, step), range(step * ROWS, (step + 1) * ROWS)
        if step == 3:
            half = pricer(price=Horizon(), deadline=50.0)
            half.load_state_dict(json.loads(json.dumps(whole.state_dict())))
        found = whole.price(rows, step=step, attempts=numbers)
        if half is not None:
            assert half.price(rows, step=step, attempts=numbers) == found


def test_a_state_that_does_not_fit_changes_nothing():
    made = pricer()
    made.price(batch(np.random.default_rng(1), 1), step=1, attempts=range(1, 5))
    before = made.state_dict()
    for damage in ({"chains": {}}, {"buffer": {"settings": before["buffer"]["settings"]}}, {"estimator": None}):
        with pytest.raises(InputError, match="state"):
            made.load_state_dict({**before, **damage})
        assert made.state_dict() == before
    with pytest.raises(InputError, match="it lacks chains"):
        made.load_state_dict({"estimator": before["estimator"], "buffer": before["buffer"]})
    with pytest.raises(InputError, match="price = 'horizon': the run was begun without a deadline or at another price"):
        pricer(price=Horizon(), deadline=9.0).load_state_dict(before)


def test_a_checkpoint_keeps_the_state_of_its_price_under_the_price_s_name():
    """Checkpoints from before a price was an object of its own have these parts, and resume."""
    parts = {"estimator", "chains", "buffer"}
    assert set(pricer(price=Horizon(), deadline=9.0).state_dict()) == parts | {"horizon"}
    assert set(pricer(price=FixedPrice(0.1)).state_dict()) == set(pricer().state_dict()) == parts


def test_a_fixed_price_is_charged_by_the_objective_s_scale_and_the_rate_is_estimated_all_the_same():
    made = pricer(Fixed(7.0), price=FixedPrice(0.2), objective=Objective(price_scale=0.5))
    priced = made.price([outcome(1.0, 2.0, row) for row in "abcd"], step=1, attempts=range(1, 5))
    assert (priced.price, priced.rate.rate) == (0.1, 7.0)
    assert priced.relative == [pytest.approx(0.8)] * 4


def test_a_number_that_is_refused_leaves_the_totals_as_they_were():
    made = pricer()
    before = made.state_dict()
    with pytest.raises(InputError, match="reward"):
        made.price([outcome(float("nan"), 1.0, "a")] * ROWS)
    assert made.state_dict() == before


def test_rules_of_a_kind_change_ranking_extra_reward_and_the_arm_vanilla():
    class Own(Rules):
        base_code = "base"

        def ranking_reward(self, outcome, *, priced):
            return -outcome.reward

        def extra_reward(self, outcome, *, priced):
            return 100.0 if priced else 200.0

        def vanilla_reward(self, outcome):
            return -outcome.seconds

    rows = [outcome(1.0, 2.0, "a"), outcome(2.0, 2.0, "b"), outcome(3.0, 2.0, "c"), outcome(0.0, 1.0, "", "error")]
    for arm, first, extra in (("rpg", [0.8, 1.8, 2.8, -11.0], 100.0), ("vanilla", [-2.0, -2.0, -2.0, -1.0], 200.0)):
        made = pricer(Fixed(0.1), Own(), objective=Objective(arm=arm, bonus=0.0))
        priced = made.price(rows, step=1, attempts=range(1, 5))
        assert priced.relative == pytest.approx(first)
        assert priced.bonuses == [extra] * 4
        assert [one.code for one in made.select(3)] == ["a", "b", "c"]


def test_known_solutions_fill_the_buffer_before_the_first_step():
    made = pricer(Fixed(0.0))
    made.start_with([KnownSolution("old", outcome(1.0, 2.0, "x")), KnownSolution("new", outcome(3.0, 2.0, "y"))])
    assert [(one.seed, one.attempt, one.number, one.code) for one in made.select(2)] == [
        ("new", -2, None, "y"),
        ("old", -1, None, "x"),
    ]


def test_without_a_buffer_there_is_no_bonus_and_every_prompt_asks_for_a_first_solution():
    made = pricer(Fixed(0.0), buffer=None)
    assert made.parents() == [None] * ROWS
    assert made.price([outcome(1.0, 1.0, "a")] * ROWS).bonuses == [0.0] * ROWS
    assert set(made.state_dict()) == {"estimator", "chains"}


QUICK, SLOW = "fit(rows=100)", "import trees\nfit(rows=90000)"


def described(steps, **settings):
    """The rate after steps in which every second attempt at a solution is quick and every other one slow."""
    settings = NeuralSettings(steps=40, **settings)
    made = pricer(settings.make(0), described=settings.described)
    rng = np.random.default_rng(0)
    for step in range(1, steps + 1):
        rows = [outcome(0.8, 1.0, QUICK), outcome(1.0, 9.0, SLOW)] * (ROWS // 2)
        rows = [replace(one, seconds=one.seconds * float(np.exp(0.1 * rng.standard_normal()))) for one in rows]
        numbers = range(step * ROWS, (step + 1) * ROWS)
        priced = made.price(rows, step=step, attempts=numbers, parent_codes=["a"] * ROWS)
    return priced.rate.rate, made


def test_an_estimator_that_is_told_what_was_known_of_attempts_charges_the_greedy_choices_rate():
    pytest.importorskip("torch")
    rate, made = described(25)
    assert rate == pytest.approx(0.8, rel=0.15)  # the policy's own: 1.8 / 10
    resumed = pricer(NeuralSettings(steps=40).make(0), described=True)
    resumed.load_state_dict(json.loads(json.dumps(made.state_dict())))
    rows = [outcome(0.5, 2.0, "c"), outcome(0.0, 1.0, "d", "error"), outcome(0.0, 1.0, "", "sandbox-failure")]
    rows.append(outcome(0.7, 1.0, QUICK))
    parents = [None, "a", "a", None]
    one, other = (each.price(rows, attempts=range(900, 900 + ROWS), parent_codes=parents) for each in (made, resumed))
    assert one.rate == other.rate
    assert one.rate.count == 4 * 25 + 3  # not that of the sandbox's failure


def test_failures_are_left_out_of_a_described_fit_where_they_are_of_any_other():
    pytest.importorskip("torch")
    made = Pricer(Rules(), Objective(), NeuralSettings().make(0), Accumulators(2, invalid="exclude"), described=True)
    assert made.fit([outcome(0.5, 2.0, "a"), outcome(0.0, 1.0, "b", "error")]).count == 1
    assert made.fit([outcome(0.0, 1.0, "b", "error")] * 2).count == 1
