"""The bounds hold for every policy of an interval, are tight where they say so, and lose no arm that matters."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bandits.brute import interpret
from rewardrate.bandits import bounds

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed, contexts=3, actions=4):
    """Random cells: points (contexts x 3 x actions), the arms, and all of them live."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, rng.choice([3, 1000]), (contexts, actions)).astype(float)
    point = np.stack(
        [rng.random((contexts, actions)) * count, rng.uniform(0.3, 3, (contexts, actions)) * count, count], 1
    )
    return rng, point, np.tile(np.arange(actions), (contexts, 1)), np.full(contexts, actions)


def sums_of(point):
    """R, D, T of every policy."""
    contexts, _, actions = point.shape
    rows = np.arange(contexts)
    policies = itertools.product(range(actions), repeat=contexts)
    return [(policy, *point[rows, :, list(policy)].sum(axis=0)) for policy in policies]


def relaxation(low, high, d, f, root):
    tilt = root / (low + high)
    return f + 2 * d * tilt, d * d * tilt, low * high * tilt


@given(SEEDS)
def test_no_policy_of_the_interval_gains_more_than_its_linear_bound(seed):
    rng, point, _, _ = problem(seed)
    policies = sums_of(point)
    s = np.array([D / math.sqrt(T) for _, _, D, T in policies])
    low, high = np.sort(rng.choice(s, 2))
    f, root, d = rng.uniform(-1, 2), rng.choice([0.01, 1.0, 30.0]), rng.uniform(0.3, 3)
    alpha, beta, shift = relaxation(low, high, d, f, root)
    for (_, R, D, T), here in zip(policies, s, strict=True):
        gain, linear = R - f * D - root * here, R - alpha * D + beta * T - shift
        gap = root * ((here - low) * (high - here) + (D - d * T) ** 2 / T) / (low + high)
        assert math.isclose(linear - gain, gap, rel_tol=1e-9, abs_tol=1e-9 * (abs(R) + abs(alpha) * D + beta * T))
        if low <= here <= high:
            assert linear >= gain - 1e-12 * (abs(R) + abs(alpha) * D + beta * T)


@given(SEEDS)
def test_a_scan_finds_the_policy_with_the_best_linear_bound(seed):
    rng, point, arm, live = problem(seed)
    alpha, beta = rng.uniform(-0.5, 2), rng.uniform(0, 1)
    best = max(R - alpha * D + beta * T for _, R, D, T in sums_of(point))
    original = point.copy()
    bound, *sums = bounds.relax(point, arm, live, alpha, beta)
    assert math.isclose(bound, best, rel_tol=1e-12, abs_tol=1e-9)
    policy = arm[:, 0]
    assert np.allclose(sums, original[np.arange(3), :, policy].sum(axis=0), rtol=1e-14)
    assert math.isclose(sums[0] - alpha * sums[1] + beta * sums[2], best, rel_tol=1e-9, abs_tol=1e-6)
    for x in range(3):  # moved, not lost
        assert sorted(arm[x]) == [0, 1, 2, 3]
        assert (point[x] == original[x][:, arm[x]]).all()


@given(SEEDS)
def test_only_arms_that_no_good_policy_has_are_dropped(seed):
    rng, point, arm, live = problem(seed)
    alpha, beta, limit = rng.uniform(0, 2), rng.uniform(0, 1), 10 ** rng.uniform(-2, 3)
    policies = sums_of(point)
    bound, *_ = bounds.relax(point, arm, live, alpha, beta)
    near = [policy for policy, R, D, T in policies if R - alpha * D + beta * T >= bound - limit + 1e-9]
    dropped, spare = bounds.prune_arms(point, arm, live, alpha, beta, limit)
    for policy in near:
        assert all(a in arm[x, : live[x]] for x, a in enumerate(policy))
    assert dropped == 12 - live.sum()
    assert spare == (live - 1).sum()


@given(SEEDS)
def test_ranges_hold_every_policy_and_are_met(seed):
    _, point, _, live = problem(seed)
    reward, low_seconds, high_seconds, low_count, high_count = bounds.ranges(point, live)
    sums = np.array([values for _, *values in sums_of(point)])
    extremes = [reward, low_seconds, high_seconds, low_count, high_count]
    met = [sums[:, 0].max(), sums[:, 1].min(), sums[:, 1].max(), sums[:, 2].min(), sums[:, 2].max()]
    assert np.allclose(extremes, met, rtol=1e-13)


@given(SEEDS)
def test_a_split_shares_out_the_arms_of_one_context(seed):
    rng, point, arm, live = problem(seed)
    live[:] = rng.integers(1, 5, 3)
    live[rng.integers(3)] = 4
    before = [set(row[:size].tolist()) for row, size in zip(arm, live, strict=True)]
    split = np.zeros(2, np.int64)
    bounds.split_arms(point, arm, live, rng.uniform(0.3, 3), split)
    x, first = split
    assert 0 < first < live[x]
    one = set(arm[x, :first].tolist())
    size = bounds.other_group(point, arm, x, first, live[x])
    other = set(arm[x, :size].tolist())
    assert size == live[x] - first
    assert one | other == before[x]
    assert not one & other


def test_equal_arms_can_be_split_too():
    point, arm, live = np.ones((2, 3, 4)), np.tile(np.arange(4), (2, 1)), np.array([1, 3])
    split = np.zeros(2, np.int64)
    bounds.split_arms(point, arm, live, 1.0, split)
    assert split.tolist() == [1, 2]


def test_a_policy_that_no_step_agrees_with_has_no_index():
    total = np.zeros((2, 3, 3))
    total[0, :, 1] = (1.0, 2.0, 4.0)
    assert bounds.policy_index(total, np.array([0, 2]), 1.0) == (-math.inf, 0.0, 0.0)
    assert bounds.policy_index(total, np.array([1, 2]), 1.0) == (0.5 - 0.5, 2.0, 4.0)


def test_python_itself_gets_the_same_bounds(monkeypatch):
    def everything():
        _, point, arm, live = problem(5, 4, 6)
        found = [bounds.relax(point, arm, live, 0.7, 0.1), bounds.ranges(point, live)]
        split = np.zeros(2, np.int64)
        bounds.split_arms(point, arm, live, 0.9, split)
        found.append(tuple(split.tolist()))
        found.append(bounds.prune_arms(point, arm, live, 0.7, 0.1, 3.0))
        found.append(bounds.other_group(point, arm, 0, 1, 3))
        return [*found, bounds.policy_index(point, arm[:, 0], 2.0)], point.tolist(), arm.tolist(), live.tolist()

    compiled = everything()
    interpret(monkeypatch, bounds)
    assert everything() == compiled
