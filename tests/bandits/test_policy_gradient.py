"""Softmax policies: equal to the plain NumPy version number for number, and in the mean with numbers of its own."""

import math

import numpy as np
import pytest

from bandits import literal
from rewardrate.bandits import NPG, SPG, World, simulate
from rewardrate.bandits.batch_rates import WEIGHTS, charged_rate
from rewardrate.bandits.counter import bits
from rewardrate.bandits.policy_gradient import FLOOR, PolicyGradient, exp_below, inverted, is_greedy
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Fixed, RobbinsMonro, Totals


class SameDraws(literal.LiteralNIW):
    """The literal posterior; the quantile with the engine's numbers."""

    def __init__(self, source):
        super().__init__(None)
        self.source, self.room = source, np.zeros(WEIGHTS + 60)

    def fit(self, reward, seconds, t):
        mean, scale, dof, n = self.predictive(reward, seconds)
        parts = (scale[0, 0], scale[0, 1], scale[1, 1])
        key = np.uint64(bits(self.source.key(t), 1))  # not the stream whose number 0 chose the action
        return max(0.0, charged_rate(tuple(mean), parts, dof, n, 1000, 0.95, 0.0, key, self.room))


@pytest.mark.parametrize("agent", [NPG, SPG])
@pytest.mark.parametrize(
    ("family", "arms", "contexts", "rate", "age"),
    [("E1", 5, 4, 0.3, 60), ("E2", 9, 6, 1.0, 300), ("E3", 12, 4, 0.1, 4000), ("E4", 30, 5, 3.0, 125)],
)
def test_every_step_equals_the_plain_numpy_version(agent, family, arms, contexts, rate, age):
    """Same contexts, draws and quantiles: 1,500 steps later the regret differs by rounding alone."""
    world, source = World(family, arms, contexts), literal.Same(7)
    theirs = literal.SoftmaxAgent(world, rate, age, agent is NPG, SameDraws(source), source)
    regret, _ = literal.trial(world, theirs, source, 1500)
    ours = simulate(world, agent(rate, age), [7], 1500)
    assert ours.final_regret[0] == pytest.approx(regret, abs=1e-8)
    assert ours.price[0, -1] == pytest.approx(theirs.slots.price, rel=1e-9)


CELLS = [
    ("E1", 5, 4, 0.3, 250, NPG),
    ("E2", 10, 4, 1.0, 60, SPG),
    ("E3", 20, 4, 0.3, 500, NPG),
    ("E4", 30, 4, 1.0, 125, SPG),
    ("E1", 70, 8, 3.0, 250, SPG),
    ("E2", 20, 8, 1.0, 1000, NPG),
    ("E3", 100, 16, 3.0, 500, SPG),
    ("E4", 10, 4, 1.0, 60, NPG),
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "arms", "contexts", "rate", "age", "agent"), CELLS)
def test_mean_regret_agrees_with_the_plain_numpy_version_on_numbers_of_its_own(
    family, arms, contexts, rate, age, agent
):
    """600 steps, 100 batches a refit, 20 literal trials against 1,000 of ours: z < 3.3, a false alarm once in 1,000."""
    world, steps = World(family, arms, contexts), 600
    theirs = np.array(
        [literal.softmax_trial(world, rate, age, agent is NPG, seed, steps, batches=100) for seed in range(20)]
    )
    ours = simulate(world, agent(rate, age, NIW(batches=100)), range(1000), steps).final_regret
    error = math.sqrt(theirs.var(ddof=1) / theirs.size + ours.var(ddof=1) / ours.size)
    assert abs(theirs.mean() - ours.mean()) < 3.3 * error


@pytest.mark.parametrize("estimator", [RobbinsMonro(), Totals(), Totals(forgetting=0.9), Fixed(0.7)])
def test_other_estimators_can_be_plugged_in(estimator):
    world = World("E1", 10, 4)
    traces = simulate(world, NPG(0.3, 1000, estimator), range(4), 20_000)
    assert traces.price[:, -1].mean() == pytest.approx(world.optimal_rate, abs=0.12)
    assert np.median(traces.final_regret) < 3000


def test_with_the_true_price_the_optimal_policy_is_found():
    world = World("E1", 5, 4)
    oracle = simulate(world, NPG(0.03, 1000, Fixed(world.optimal_rate)), range(8), 20_000)
    half = oracle.steps.searchsorted(10_000)
    late = (oracle.pseudo_regret[:, -1] - oracle.pseudo_regret[:, half]) / 10_000
    assert np.median(late) < 0.01


def test_exp_below_is_exp_to_1e13():
    for x in np.linspace(-39.9, 0.0, 4001):
        assert exp_below(x) == pytest.approx(math.exp(x), rel=1e-13)
    assert exp_below(FLOOR - 1) == 0.0
    assert exp_below(-1e9) == 0.0


def test_of_tied_actions_the_first_is_greedy():
    theta = np.array([0.0, 2.0, 2.0, 1.0])
    assert [is_greedy(theta, a, 2.0) for a in range(4)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 100), "learning_rate = 0.0"),
        ((-1.0, 100), "learning_rate = -1.0"),
        ((math.nan, 100), "learning_rate = nan"),
        ((0.3, 0), "age = 0"),
        ((0.3, 2.5), "age = 2.5"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments, words):
    with pytest.raises(InputError) as error:
        NPG(*arguments)
    assert words in str(error.value)


def test_npg_and_spg_are_the_same_but_for_the_gradient():
    assert issubclass(NPG, PolicyGradient)
    assert (NPG(0.3, 9).parameters(World("E1", 5, 4)) != SPG(0.3, 9).parameters(World("E1", 5, 4))).sum() == 1


@pytest.mark.parametrize("actions", [2, 16, 17, 40, 161])
def test_inversion_takes_each_action_for_its_share_of_the_line(actions):
    chance = np.random.default_rng(actions).random(actions)
    edges = np.cumsum(chance)
    for left in np.linspace(0, edges[-1], 500)[:-1]:
        assert inverted(chance, left) == np.searchsorted(edges, left, side="right")
    assert inverted(chance, 2 * edges[-1]) == actions - 1
