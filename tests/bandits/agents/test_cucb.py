"""C-UCB, exact and sampled."""

import math

import numpy as np
import pytest

from bandits import literal
from rewardrate.bandits import CUCB, World, simulate
from rewardrate.bandits.agents.cucb import FLOOR, best_action
from rewardrate.bandits.engine import Trial, one_trial
from rewardrate.bandits.trial import loop_of, tables_of
from rewardrate.errors import InputError


@pytest.mark.parametrize(
    ("family", "arms", "c1", "c2", "steps"),
    [("E1", 5, 0.1, 0.1, 1200), ("E4", 5, 1.0, 0.01, 1200), ("E3", 10, 0.01, 0.001, 250), ("E2", 10, 10.0, 1.0, 250)],
)
def test_every_step_equals_brute_force_over_all_policies(family, arms, c1, c2, steps):
    """1,296 or 14,641 policies at each step: the same price, the same regret, at every step."""
    world, source = World(family, arms, 4), literal.Same(5)
    theirs = literal.UpperConfidence(world, c1, c2)
    prices = []
    act = theirs.act

    def watched(t, x):
        action = act(t, x)
        prices.append(theirs.price)
        return action

    theirs.act = watched
    regret, _ = literal.trial(world, theirs, source, steps)
    ours = simulate(world, CUCB(c1, c2), [5], steps, marks=range(1, steps + 1))
    assert ours.price[0] == pytest.approx(np.array(prices), rel=1e-12)
    assert ours.final_regret[0] == pytest.approx(regret, abs=1e-8)


def test_no_search_of_the_small_study_is_cut_short():
    world = World("E1", 30, 4)
    for c1 in (0.01, 1.0, 100.0):
        agent = CUCB(c1, 0.01)
        out = np.zeros((3, 1))
        trial = Trial(world, agent, loop_of(agent), tables_of(world), agent.parameters(world))
        state = one_trial(trial, 0, 5000, marks=np.array([5000]), out=out)
        assert state.price[1] == 0.0


def test_sampled_policies_give_a_price_like_that_of_the_literal_version():
    """Mean final regret, 12 literal trials against 60 of ours, 64 policies a step: z < 3.3, a false alarm in 1,000."""
    world, steps = World("E1", 6, 5), 500
    theirs = []
    for seed in range(12):
        agent = literal.UpperConfidence(world, 0.1, 0.05, policies=64, seed=seed)
        theirs.append(literal.trial(world, agent, literal.Fresh(100 + seed), steps)[0])
    ours = simulate(world, CUCB(0.1, 0.05, policies=64), range(60), steps).final_regret
    error = math.sqrt(np.var(theirs, ddof=1) / 12 + ours.var(ddof=1) / 60)
    assert abs(np.mean(theirs) - ours.mean()) < 3.3 * error


def test_theoretical_constants_are_the_papers_formulas():
    world = World("E1", 10, 4)
    reward, seconds = world.true_reward, world.true_seconds
    r, d, least = reward.max(), seconds.max(), 0.35
    agent = CUCB.theory(world)
    kappa = 2 * max(r**2 / least**2, r**2 * (d - least) ** 2 / least**4)
    alpha0 = math.sqrt(8 * max(r**2, r**2 * (d - least) ** 2 / least**2))
    assert agent.c1 == pytest.approx(kappa)
    assert agent.c2 == pytest.approx(alpha0 + d * math.sqrt(2 * kappa))
    assert CUCB.theory(world, policies=2048).policies == 2048


def test_theoretical_constants_break_it():
    """Bonuses of hundreds: it plays all arms alike for ever, and its price stays at the floor."""
    world = World("E1", 10, 4)
    traces = simulate(world, CUCB.theory(world), range(3), 20_000)
    assert (traces.price[:, -1] == FLOOR).all()
    assert traces.final_regret.min() > 5000
    assert np.median(simulate(world, CUCB(1.0, 0.1), range(5), 20_000).final_regret) < 1000


@pytest.mark.parametrize("policies", [None, 32])
def test_every_arm_of_a_context_is_tried_once_first(policies):
    world = World("E1", 5, 4)
    agent = CUCB(0.1, 0.0, policies)
    out = np.zeros((3, 1))
    marks = np.array([200])
    trial = Trial(world, agent, loop_of(agent), tables_of(world), agent.parameters(world))
    state = one_trial(trial, 1, 200, marks=marks, out=out)
    count = state.frontier.total[:, 2] if policies is None else state.seen.cell[:, :, 2]
    assert count.min() >= 1
    assert count.sum() == 200


def test_the_best_action_is_the_first_of_equals():
    ones = np.ones(3)
    assert best_action(ones, ones, ones, 0.5, 0.1) == 0
    assert best_action(np.array([1.0, 2.0, 2.0]), ones, ones, 0.5, 0.1) == 1
    assert best_action(np.array([1.0, 1.0, 4.0]), ones, np.array([1.0, 1.0, 4.0]), 0.0, 1.0) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1.0, 0.1), "c1 = -1.0"),
        ((0.1, math.inf), "c2 = inf"),
        ((0.1, 0.1, 0), "policies = 0"),
        ((0.1, 0.1, 10**24), "at most"),
    ],
)
def test_bad_constants_are_refused(arguments, words):
    with pytest.raises(InputError) as error:
        CUCB(*arguments)
    assert words in str(error.value)


def test_a_search_that_ran_out_of_budget_is_reported(caplog, monkeypatch):
    monkeypatch.setattr(CUCB, "unproven_steps", lambda self, state: 3)
    simulate(World("E1", 5, 4), CUCB(0.1, 0.1), range(2), 50)
    assert "6 of 100 steps rest on a price that was not proved to be the largest (E1, K = 5, |X| = 4)" in caplog.text
    monkeypatch.undo()
    caplog.clear()
    simulate(World("E1", 5, 4), CUCB(0.1, 0.1), range(2), 50)
    assert not caplog.text
