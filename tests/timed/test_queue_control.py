"""The queue: a threshold is optimal, reward alone is always careful."""

import itertools

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

from rewardrate.errors import InputError
from rewardrate.timed import QueueControl
from rewardrate.timed.queue_control import CAREFUL, QUICK


def test_the_optimum_is_the_best_of_all_policies_and_careful_only_while_the_queue_is_short():
    env = QueueControl()
    rates = {policy: env.smdp.rate(np.array((0, *policy))) for policy in itertools.product((QUICK, CAREFUL), repeat=6)}
    best = max(rates, key=rates.get)
    assert best == (CAREFUL, CAREFUL, QUICK, QUICK, QUICK, QUICK)
    assert env.exact().rate == pytest.approx(rates[best], rel=1e-12)
    assert env.exact().policy[1:].tolist() == list(best)


def test_by_reward_alone_service_is_always_careful():
    env = QueueControl()
    assert env.reward_policy()[1:].tolist() == [CAREFUL] * 6
    assert env.smdp.rate(env.reward_policy()) / env.exact().rate == pytest.approx(0.738, abs=5e-4)


def test_with_one_place_the_rate_is_that_of_a_renewal():
    """Wait, serve, wait: careful earns 2 in 2 + 4 s but turns away 2 customers on average while serving."""
    env = QueueControl(room=1, lost=0.0)
    assert env.smdp.rate(np.array([0, CAREFUL])) == pytest.approx(self_made(2.0, 4.0), rel=1e-12)
    assert env.smdp.rate(np.array([0, QUICK])) == pytest.approx(self_made(1.0, 1.0), rel=1e-12)


def self_made(reward, seconds, arrivals=0.5):
    """After a service the place is taken with probability q, else one waits 1 / arrivals."""
    q = arrivals * seconds / (1 + arrivals * seconds)
    return reward / (seconds + (1 - q) / arrivals)


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"room": 0}, "room"),
        ({"arrivals": 0.0}, "arrivals"),
        ({"reward": (1.0,)}, "reward"),
        ({"reward": (1.0, float("nan"))}, "reward"),
        ({"reward": 2.0}, "give two numbers: quick, careful"),
        ({"seconds": (1.0, -1.0)}, "seconds"),
        ({"lost": -0.1}, "lost"),
    ],
)
def test_a_wrong_setting_is_named(setting, field):
    with pytest.raises(InputError, match=field):
        QueueControl(**setting)
