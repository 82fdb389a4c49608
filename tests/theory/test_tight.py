"""Every bound is met, or nearly, by an example."""

import pytest

from rewardrate.theory import bounds, dinkelbach
from rewardrate.theory.statements import STATEMENTS
from rewardrate.theory.tight import TIGHT

NEARLY = {"theorem 2, rate": 1e-3, "theorem 2, tail": 1e-3, "streams, finish order": 3e-3}


@pytest.mark.parametrize("name", TIGHT)
def test_the_example_leaves_next_to_no_slack_and_does_not_violate(name):
    slack = TIGHT[name]()
    assert -1e-12 <= slack <= NEARLY.get(name, 1e-10)


def test_every_inequality_has_its_example():
    """Statements that are equalities to a tolerance, or about policies, have none."""
    inequalities = {statement.name for statement in STATEMENTS if statement.allowance > 0}
    assert inequalities - set(TIGHT) == {"lemma 4, policy"}


def test_the_upper_end_of_theorem_1_is_met_at_the_top_of_the_band():
    reward, seconds, gamma = [[1.0, 2.0]], [[1.0, 4.0]], 0.2
    b = bounds(reward, seconds)
    path = list(dinkelbach(reward, seconds, gamma=gamma, choose=lambda k, greedy, low, high: high, steps=20))
    assert path[-1] == pytest.approx(b.interval(20, gamma)[1], rel=1e-12)
