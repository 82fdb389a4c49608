"""The front of every context: exactly the arms that nothing dominates, whatever happened before."""

import numpy as np
import pytest

from bandits.brute import interpret
from rewardrate.bandits import fronts
from rewardrate.bandits.fronts import NO_ARM, new_frontier


def beats(one, other, first):
    """The definition: no less reward, no more seconds, no less count; equal points count for the first arm alone."""
    weakly = one[0] >= other[0] and one[1] <= other[1] and one[2] >= other[2]
    return weakly and (first or (one != other).any())


def expected_front(total):
    """total: 3 x actions."""
    points = total.T
    return {
        b
        for b in range(len(points))
        if not any(beats(points[a], points[b], a < b) for a in range(len(points)) if a != b)
    }


def check(frontier):
    for x in range(len(frontier.size)):
        arms = frontier.arm[x, : frontier.size[x]]
        assert set(arms.tolist()) == expected_front(frontier.total[x])
        assert len(set(arms.tolist())) == len(arms)
        assert (frontier.point[x][:, : len(arms)] == frontier.total[x][:, arms]).all()
        for b, a in enumerate(frontier.dominator[x]):
            assert (a == NO_ARM) == (b in arms)
            assert a == NO_ARM or fronts.dominates(frontier.total, x, a, b)


@pytest.mark.parametrize("coarse", [True, False], ids=["many ties", "no ties"])
def test_the_front_is_what_nothing_dominates_after_every_attempt(coarse):
    rng = np.random.default_rng(1)
    frontier = new_frontier(2, 9)
    for step in range(400):
        reward, seconds = rng.random(), rng.uniform(0.5, 2)
        if coarse:
            reward, seconds = round(reward), float(round(seconds))
        fronts.record(frontier, int(rng.integers(2)), int(rng.integers(9)), reward, seconds)
        if step < 100 or step % 20 == 0:
            check(frontier)


def test_totals_may_be_set_to_anything_at_any_time():
    rng = np.random.default_rng(2)
    frontier = new_frontier(3, 7)
    for _ in range(500):
        x, a = int(rng.integers(3)), int(rng.integers(7))
        fronts.set_totals(frontier, x, a, *rng.integers(0, 4, 3).astype(float))
        check(frontier)


def test_before_the_first_attempt_the_first_arm_stands_for_all():
    frontier = new_frontier(2, 5)
    check(frontier)
    assert frontier.size.tolist() == [1, 1]


def test_attempts_add_up():
    frontier = new_frontier(1, 3)
    for reward, seconds in ((0.5, 1.0), (0.25, 2.0)):
        fronts.record(frontier, 0, 1, reward, seconds)
    assert frontier.total[0, :, 1].tolist() == [0.75, 3.0, 2.0]
    assert not frontier.total[0][:, [0, 2]].any()


def test_python_itself_builds_the_same_front(monkeypatch):
    rng = np.random.default_rng(3)
    attempts = [(int(rng.integers(2)), int(rng.integers(6)), rng.random(), rng.uniform(0.5, 2)) for _ in range(300)]
    compiled, interpreted = new_frontier(2, 6), new_frontier(2, 6)
    for attempt in attempts:
        fronts.record(compiled, *attempt)
    interpret(monkeypatch, fronts)
    for attempt in attempts:
        fronts.record(interpreted, *attempt)
    for one, other in zip(compiled, interpreted, strict=True):
        assert (one == other).all()
