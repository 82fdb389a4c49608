"""The paper's approximation: policies of arms already played, uniform, and never above the exact one."""

import math

import numpy as np
import pytest
from scipy import stats

from bandits import brute
from bandits.brute import interpret
from rewardrate.bandits import counter, sampled
from rewardrate.bandits.fronts import NO_ARM
from rewardrate.bandits.sampled import new_seen, record_seen, sampled_index, sampled_policy

KEY = np.uint64(2024)


def played(contexts, actions, attempts, seed=0):
    """Random attempts: what `sampled` holds, and the same totals as plain tables."""
    rng = np.random.default_rng(seed)
    seen, total = new_seen(contexts, actions), np.zeros((3, contexts, actions))
    for _ in range(attempts):
        x, a, reward, seconds = (
            int(rng.integers(contexts)),
            int(rng.integers(actions)),
            rng.random(),
            rng.uniform(0.5, 2),
        )
        record_seen(seen, x, a, reward, seconds)
        total[:, x, a] += (reward, seconds, 1)
    return seen, total


def test_arms_stand_in_the_order_in_which_they_were_first_played():
    seen = new_seen(2, 4)
    for x, a in ((0, 2), (0, 0), (0, 2), (1, 3)):
        record_seen(seen, x, a, 0.5, 1.0)
    assert seen.size.tolist() == [2, 1]
    assert seen.row.tolist() == [[1, NO_ARM, 0, NO_ARM], [NO_ARM, NO_ARM, NO_ARM, 0]]
    assert seen.cell[0, :2, :3].tolist() == [[1.0, 2.0, 2.0], [0.5, 1.0, 1.0]]


def test_totals_are_those_of_the_attempts():
    seen, total = played(5, 6, 90)
    for x, a in np.ndindex(5, 6):
        if total[2, x, a]:
            assert np.allclose(seen.cell[x, seen.row[x, a], :3], total[:, x, a], rtol=1e-13)
        else:
            assert seen.row[x, a] == NO_ARM


@pytest.mark.parametrize("contexts", [1, 4, 7])
def test_every_played_arm_is_equally_likely_and_contexts_are_independent(contexts):
    """Counts mark the arms: arm a of context x has count 10^x (a + 1). 20,000 policies; false alarms once in 1,000."""
    actions, policies = 3, 20_000
    cell = np.zeros((contexts, 5, 4))
    for x in range(contexts):
        cell[x, :actions, 2] = 10.0**x * np.arange(1, actions + 1)
    size = np.full(contexts, actions)
    counts = [int(sampled_policy(cell, size, KEY, i)[2]) for i in range(policies)]
    drawn = np.array([[count // 10**x % 10 - 1 for x in range(contexts)] for count in counts])
    for x in range(contexts):
        assert stats.chisquare(np.bincount(drawn[:, x], minlength=actions)).pvalue > 1e-3 / contexts
        if x:
            table = np.zeros((actions, actions))
            np.add.at(table, (drawn[:, x - 1], drawn[:, x]), 1)
            assert stats.chi2_contingency(table).pvalue > 1e-3 / contexts


def test_the_index_is_that_of_the_best_policy_drawn():
    seen, _ = played(6, 5, 40, seed=1)
    best = -math.inf
    for i in range(300):
        reward, seconds, count = sampled_policy(seen.cell, seen.size, KEY, i)
        best = max(best, reward / seconds - math.sqrt(2.0 / count))
    assert sampled_index(seen, KEY, 300, 2.0) == best


def test_with_enough_policies_it_is_the_exact_index_and_never_more():
    for seed in range(5):
        seen, total = played(3, 4, 60, seed)
        exact, _ = brute.best(*total, 1.0)
        few, many = (sampled_index(seen, KEY, policies, 1.0) for policies in (5, 3000))
        assert few <= many <= exact + 1e-12
        assert math.isclose(many, exact, rel_tol=1e-12)


def test_a_context_in_which_nothing_was_played_adds_nothing():
    seen = new_seen(3, 4)
    assert sampled_index(seen, KEY, 10, 1.0) == -math.inf
    record_seen(seen, 1, 2, 0.5, 2.0)
    assert sampled_index(seen, KEY, 10, 1.0) == 0.25 - 1.0


def test_python_itself_draws_the_same_policies(monkeypatch):
    seen, _ = played(5, 4, 30)
    compiled = sampled_index(seen, KEY, 50, 1.0)
    interpret(monkeypatch, counter, sampled)
    again = new_seen(5, 4)
    for x, a in np.argwhere(seen.row >= 0):
        row = seen.cell[x, seen.row[x, a]]
        for _ in range(int(row[2])):
            record_seen(again, x, a, row[0] / row[2], row[1] / row[2])
    with np.errstate(over="ignore"):
        assert sampled_index(seen, KEY, 50, 1.0) == compiled
    assert sorted(again.size) == sorted(seen.size)
