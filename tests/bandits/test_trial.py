"""One trial's loop: tables, permutation, bookkeeping, and agents of one's own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rewardrate.bandits import NPG, Agent, World, simulate
from rewardrate.bandits.counter import uniform
from rewardrate.bandits.trial import compiled_loop, loop_of, tables_of
from rewardrate.errors import InputError

WORLD = World("E1", 6, 5)


@dataclass(frozen=True)
class Script(Agent):
    """Plays one action for ever, and counts."""

    action: int = 0
    name: ClassVar[str] = "script"

    def start(self, world):
        return np.zeros(4)

    def parameters(self, world):
        return np.array([float(self.action)])

    @staticmethod
    def act(t, x, key, state, p):
        state[3] += uniform(key, 0)
        return int(p[0])

    @staticmethod
    def learn(t, x, action, reward, seconds, key, state, p):
        state[0] += 1.0
        state[1] += reward
        state[2] += seconds


def test_an_agent_of_plain_functions_is_compiled_and_run():
    traces = simulate(WORLD, Script(2), range(4), 200, marks=range(1, 201))
    assert (traces.price == np.arange(1, 201)).all(), "the price is the first number of the state"


def test_skip_costs_its_time_and_earns_nothing():
    traces = simulate(WORLD, Script(WORLD.arms), [0], 100)
    assert traces.final_regret[0] == pytest.approx(100 * 0.35 * WORLD.optimal_rate)


def test_arms_and_contexts_are_permuted_in_every_trial():
    """The mean regret of a fixed action over many trials is that of a random arm."""
    traces = simulate(WORLD, Script(0), range(3000), 20)
    tables = tables_of(WORLD)
    assert traces.pseudo_regret[:, -1].mean() / 20 == pytest.approx(tables.gap[:, :-1].mean(), rel=0.03)
    assert len(set(traces.pseudo_regret[:, -1].round(9))) > 1000


def test_tables_hold_gaps_at_the_optimal_rate():
    tables = tables_of(WORLD)
    assert tables.gap.shape == (5, 7)
    assert (tables.gap.min(axis=1) == 0).all()
    assert (tables.gap.argmin(axis=1) == WORLD.greedy_policy()).all()
    assert tables.reward[:, -1].tolist() == [0.0] * 5
    assert tables.seconds[:, -1].tolist() == [0.35] * 5
    assert tables.numbers.tolist() == [0.0, 0.0, WORLD.optimal_rate]


def test_a_loop_is_compiled_once_per_agent():
    assert loop_of(NPG(0.3, 9)) is loop_of(NPG(1.0, 99))
    assert compiled_loop(Script.act, Script.learn, Script.price) is loop_of(Script(1))


def test_an_agent_that_cannot_be_compiled_is_reported_in_one_line():
    class Wrong(Script):
        @staticmethod
        def act(t, x, key, state, p):
            return state.no_such_thing

    with pytest.raises(InputError, match="numba cannot compile its act, learn or price") as error:
        simulate(WORLD, Wrong(), [0], 10)
    assert "no_such_thing" in str(error.value)
    assert "\n" not in str(error.value)
