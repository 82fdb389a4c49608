"""Exact C-UCB: the bits of a brute force, wherever a brute force can go, and beyond."""

import math

import numba
import numpy as np
import pytest

from bandits import brute
from rewardrate.bandits import World, bounds, frontier, fronts
from rewardrate.bandits.frontier import log_policies, maximise, rate_kappa
from rewardrate.bandits.fronts import new_frontier, record, set_totals

PARTS = 20_000  # a search in the worlds of the paper takes 2 to 40


def filled(reward, seconds, count):
    found = new_frontier(*reward.shape)
    for x, a in np.ndindex(reward.shape):
        set_totals(found, x, a, reward[x, a], seconds[x, a], count[x, a])
    return found


def index_of(policy, reward, seconds, count, kappa):
    """The index of one policy, its sums over the contexts in order."""
    r, d, n = (sum(table[x][a] for x, a in enumerate(policy)) for table in (reward, seconds, count))
    return r / d - math.sqrt(kappa / n) if n else -math.inf


@pytest.mark.parametrize("c1", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("arms", [5, 10])
def test_every_step_of_a_trial_has_the_bits_of_a_brute_force(arms, c1):
    """Burn-in included, one search carried from step to step as the agent does it."""
    world = World("E2", arms, 4)
    carried, before = new_frontier(4, world.actions), np.zeros((3, 4, world.actions))
    for t, totals, kappa, index, _ in brute.trial(world, c1, 0.1, 400, seed=arms):
        for x, a in zip(*np.nonzero(totals[2] - before[2]), strict=True):
            set_totals(carried, x, a, *(table[x, a] for table in totals))
        before = np.array(totals)
        value, proven = maximise(carried, kappa, -np.inf, 10_000)
        assert proven
        assert value == index, f"step {t}"
        assert index_of(carried.best, *totals, kappa) == index
        charged, _ = maximise(carried, kappa, 1e-9, 10_000)
        assert charged == max(index, 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_hostile_totals_give_index_and_policy_of_a_brute_force(seed):
    """Ties, zeros, equal arms, arms never played, huge and tiny values and widths: 150 problems a seed."""
    rng = np.random.default_rng(seed)
    for case in range(150):
        *totals, kappa = brute.hostile(rng)
        state = filled(*totals)
        assert maximise(state, kappa, -np.inf, PARTS) == (brute.best(*totals, kappa)[0], True), case
        assert index_of(state.best, *totals, kappa) == brute.best(*totals, kappa)[0], case


def test_the_brute_force_is_the_loop_over_policies():
    rng = np.random.default_rng(0)
    for _ in range(40):
        *totals, kappa = brute.hostile(rng)
        if totals[0].shape[1] ** totals[0].shape[0] < 1500:
            one, other = brute.best(*totals, kappa), brute.best_one_by_one(*totals, kappa)
            assert one[0] == other[0]
            assert (one[1] == other[1]).all()


def test_where_a_search_starts_changes_nothing():
    rng = np.random.default_rng(7)
    for _ in range(60):
        *totals, kappa = brute.hostile(rng)
        values = set()
        for _ in range(5):
            start = filled(*totals)
            start.best[:] = rng.integers(0, totals[0].shape[1], totals[0].shape[0])
            values.add(maximise(start, kappa, -np.inf, 100_000))
        assert len(values) == 1


def test_eight_contexts_equal_a_brute_force_over_a_million_policies():
    world = World("E1", 5, 8)
    rng = np.random.default_rng(3)
    count = rng.integers(1, 40, (8, 6)).astype(float)
    reward = np.column_stack([world.mean_reward, np.zeros(8)]) * count * rng.uniform(0.8, 1.2, (8, 6))
    seconds = np.column_stack([world.mean_seconds, np.full(8, 0.35)]) * count
    for kappa in (0.1, 10.0, 1000.0):
        state = filled(reward, seconds, count)
        index, policy = brute.best(reward, seconds, count, kappa)
        assert maximise(state, kappa, -np.inf, PARTS) == (index, True)
        assert (state.best == policy).all()


@pytest.mark.parametrize(("contexts", "actions"), [(16, 101), (64, 161)])
def test_the_paper_s_large_worlds_are_searched_to_the_end(contexts, actions):
    """No brute force goes here (10^32 and 10^141 policies): proven, and no local search from anywhere finds more."""
    rng = np.random.default_rng(contexts)
    shape = (contexts, actions)
    count = np.where(rng.random(shape) < 0.02, rng.integers(50, 400, shape), rng.integers(1, 6, shape)).astype(float)
    reward, seconds = rng.random(shape) * count, rng.uniform(0.4, 3, shape) * count
    rows = np.arange(contexts)
    state = filled(reward, seconds, count)
    for kappa in (1.0, 50.0, 2000.0):
        index, proven = maximise(state, kappa, -np.inf, 1000)
        assert proven
        r, d, n = (table[rows, state.best].sum() for table in (reward, seconds, count))
        assert math.isclose(index, r / d - math.sqrt(kappa / n), rel_tol=1e-12)
        for _ in range(5):
            assert local_search(reward, seconds, count, kappa, rng.integers(0, actions, contexts)) <= index + 1e-12


def local_search(reward, seconds, count, kappa, policy):
    """Change one context at a time to the best arm until nothing helps."""
    rows, index = np.arange(len(policy)), -math.inf
    while True:
        before = index
        for x in rows:
            rest = [table[rows, policy].sum() - table[x, policy[x]] for table in (reward, seconds, count)]
            r, d, n = (part + table[x] for part, table in zip(rest, (reward, seconds, count), strict=True))
            tried = r / d - np.sqrt(kappa / n)
            policy[x], index = tried.argmax(), tried.max()
        if index <= before:
            return index


def test_a_compiled_trial_can_call_the_search():
    @numba.njit
    def play(state, numbers):
        values = np.zeros(len(numbers))
        for t in range(len(numbers)):
            x, a, reward, seconds = numbers[t]
            record(state, int(3 * x), int(4 * a), reward, 0.5 + seconds)
            values[t], _ = maximise(state, rate_kappa(0.1, t + 1.0, log_policies(3, 4)), 1e-9, 1000)
        return values

    state = new_frontier(3, 4)
    values = play(state, np.random.default_rng(1).random((60, 4)))
    kappa = 0.2 * (math.log(60) + math.log(4**3 + 1) / 2)
    assert values[-1] == max(brute.best(*np.moveaxis(state.total, 1, 0), kappa)[0], 1e-9)


def test_kappa_is_the_paper_s():
    assert math.isclose(rate_kappa(0.5, 100, log_policies(2, 3)), math.log(100 * math.sqrt(3**2 + 1)))
    assert rate_kappa(1.0, 0, 0.0) == rate_kappa(1.0, 2, 0.0)
    assert math.isclose(log_policies(64, 161), 64 * math.log(161))


def test_nothing_seen_means_no_index():
    assert maximise(new_frontier(3, 4), 1.0, -np.inf, 10) == (-math.inf, True)
    assert maximise(new_frontier(3, 4), 1.0, 1e-9, 10) == (1e-9, True)


def test_one_context_with_one_arm_is_a_policy_too():
    only = filled(np.array([[2.0]]), np.array([[4.0]]), np.array([[9.0]]))
    assert maximise(only, 1.0, -np.inf, 10) == (0.5 - 1 / 3, True)


def test_arms_of_the_same_rate_without_a_width_do_not_exhaust_the_search():
    """All 10^10 policies tie but for rounding."""
    count = np.random.default_rng(0).integers(1, 100, (10, 10)).astype(float)
    index, proven = maximise(filled(0.5 * count, count, count), 0.0, -np.inf, PARTS)
    assert proven
    assert math.isclose(index, 0.5, rel_tol=1e-15)


def test_a_search_that_gives_up_says_so_and_keeps_a_real_policy():
    rng = np.random.default_rng(11)
    count = rng.integers(1, 900, (6, 8)).astype(float)
    reward, seconds = rng.random((6, 8)) * count, rng.uniform(0.4, 3, (6, 8)) * count
    state = filled(reward, seconds, count)
    cut, proven = maximise(state, 50.0, -np.inf, 1)
    assert not proven
    assert math.isclose(cut, index_of(state.best, reward, seconds, count, 50.0))
    best, proven = maximise(filled(reward, seconds, count), 50.0, -np.inf, 10_000)
    assert proven
    assert cut <= best


def test_python_itself_finds_the_same(monkeypatch):
    problems = [brute.hostile(np.random.default_rng(seed)) for seed in range(40)]

    def searched():
        states = [filled(*totals) for *totals, _ in problems]
        found = [maximise(state, problem[-1], -np.inf, PARTS) for state, problem in zip(states, problems, strict=True)]
        return found, [state.best.tolist() for state in states], [int(state.parts[0]) for state in states]

    compiled = searched()
    brute.interpret(monkeypatch, fronts, bounds, frontier)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert searched() == compiled
