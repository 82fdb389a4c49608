"""The comparison of prices before a deadline: nothing beats the optimum, numbers are reproducible, intervals cover."""

import json

import numpy as np
import pytest

from rewardrate.rates import Horizon
from rewardrate.theory.deadline_lab import ESTIMATED, RULES, DeadlineConfig, bootstrap, judge, losses_of, play
from rewardrate.theory.deadline_problems import FAMILIES, draw_problem
from rewardrate.theory.deadline_rules import greedy


@pytest.fixture(scope="module")
def results():
    return judge(DeadlineConfig(problems=4, seed=1, plays=1))


def test_every_family_is_judged_by_every_rule_and_the_result_is_json(results):
    assert [one.family for one in results] == list(FAMILIES)
    for one in results:
        assert set(one.loss) == set(RULES) - ({ESTIMATED} if one.family == "commit" else set())
        assert one.against_vanilla["vanilla"] == (0.0, 0.0, 0.0)
        for loss in one.loss.values():
            assert loss.low <= loss.mean <= loss.high
    assert json.loads(json.dumps([one.to_json() for one in results], allow_nan=False))[0]["problems"] == 4


def test_the_same_seed_gives_the_same_numbers_whatever_the_number_of_problems(results):
    rng = np.random.default_rng([1, 1, 0])
    best, lost = losses_of(draw_problem(rng, "inertia"), 1, rng)
    again = np.random.default_rng([1, 1, 0])
    assert (best, lost) == losses_of(draw_problem(again, "inertia"), 1, again)
    assert results == judge(DeadlineConfig(problems=4, seed=1, plays=1))


@pytest.mark.parametrize("family", FAMILIES)
def test_no_rule_that_is_known_exactly_is_above_the_optimum(family):
    for number in range(5):
        rng = np.random.default_rng([3, number])
        _, lost = losses_of(draw_problem(rng, family), 1, rng)
        assert min(loss for name, loss in lost.items() if name != ESTIMATED) >= -1e-12


def test_a_run_at_a_price_of_nothing_is_worth_what_vanilla_is():
    """400 runs, four standard errors."""

    class Free(Horizon):
        def update(self, reward, seconds, *, rate=0.0, chains, deadline):
            assert len(reward) == len(seconds) == chains
            return 0.0

    problem = draw_problem(np.random.default_rng(8), "free")
    rng = np.random.default_rng(0)
    found = np.array([play(problem, Free(), rng) for _ in range(400)])
    rule = greedy(problem, np.zeros((problem.budget + 1, problem.level.size)))
    expected = problem.horizon.value(rule)[-1, problem.start]
    assert abs(found.mean() - expected) <= 4 * found.std() / 20 + 1e-12


def test_the_interval_is_that_of_a_normal_mean_where_there_are_many_problems():
    values = np.random.default_rng(2).normal(1.0, 0.5, size=400)
    loss, error = bootstrap(values), values.std() / 20
    assert loss.mean == values.mean()
    assert loss.low == pytest.approx(loss.mean - 1.96 * error, abs=0.15 * error)
    assert loss.high == pytest.approx(loss.mean + 1.96 * error, abs=0.15 * error)
