"""The machine: maintenance pays by the clock, not by the step."""

import itertools

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

from rewardrate.errors import InputError
from rewardrate.timed import MachineMaintenance
from rewardrate.timed.maintenance import OVERHAUL, RUN, SERVICE


def test_the_optimum_is_the_best_of_all_729_policies():
    env = MachineMaintenance()
    best = max(env.smdp.rate(np.array(policy)) for policy in itertools.product(range(3), repeat=6))
    assert env.exact().rate == pytest.approx(best, rel=1e-12)
    assert env.exact().policy.tolist() == [RUN, RUN, SERVICE, OVERHAUL, OVERHAUL, OVERHAUL]


def test_by_reward_alone_the_machine_is_run_into_the_ground():
    env = MachineMaintenance()
    assert env.reward_policy(0.99).tolist() == [RUN] * 6
    assert env.smdp.rate(env.reward_policy(0.99)) / env.exact().rate == pytest.approx(0.494, abs=5e-4)
    assert env.reward_policy().tolist() == [RUN] * 5 + [OVERHAUL]
    assert env.smdp.rate(env.reward_policy()) / env.exact().rate == pytest.approx(0.715, abs=5e-4)


def test_repairs_do_what_they_say():
    env, rng = MachineMaintenance(), np.random.default_rng(0)
    assert [env.draw(wear, SERVICE, rng).state for wear in range(6)] == [0, 0, 0, 1, 2, 3]
    assert [env.draw(wear, OVERHAUL, rng).state for wear in range(6)] == [0] * 6
    assert env.chance(0) == 0
    assert env.chance(5) == env.breaks


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"levels": 1}, "levels"),
        ({"slower": -1.0}, "slower"),
        ({"worse": float("inf")}, "worse"),
        ({"worsens": 0.0}, "worsens"),
        ({"breaks": 1.0}, "breaks"),
        ({"seconds": (0.0, 4.0)}, "seconds"),
        ({"seconds": (2.5, 4.0, 5.0)}, "give two numbers: service, overhaul"),
        ({"seconds": 2.5}, "give two numbers: service, overhaul"),
        ({"down": -1.0}, "down"),
    ],
)
def test_a_wrong_setting_is_named(setting, field):
    with pytest.raises(InputError, match=field):
        MachineMaintenance(**setting)
