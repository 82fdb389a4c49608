"""The forager: leave when a bite brings less than the rate, not before."""

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

from rewardrate.errors import InputError
from rewardrate.timed import Foraging
from rewardrate.timed.foraging import BITE, LEAVE


def leave_after(env, rich, poor):
    policy = np.full(env.smdp.states, LEAVE)
    policy[:rich] = policy[env.levels : env.levels + poor] = BITE
    return policy


def test_the_optimum_is_the_best_pair_of_giving_up_points():
    env = Foraging()
    rates = {(r, p): env.smdp.rate(leave_after(env, r, p)) for r in range(9) for p in range(9) if r + p}
    best = max(rates, key=rates.get)
    assert env.exact().rate == pytest.approx(rates[best], rel=1e-12)
    assert env.exact().policy.tolist() == leave_after(env, *best).tolist()


def test_a_patch_is_left_when_a_bite_brings_less_than_the_rate():
    """Charnov's marginal value theorem; being chased off (2 % of bites) moves the threshold by a little."""
    env = Foraging(chased=1e-9)
    best = env.exact()
    bite = env.smdp.reward[:, BITE] / env.smdp.seconds[:, BITE]
    assert ((best.policy == BITE) == (bite > best.rate)).all()


def test_by_reward_alone_patches_are_left_too_early():
    env = Foraging()
    by_reward, best = env.reward_policy(), env.exact().policy
    assert (by_reward[: env.levels] == BITE).sum() < (best[: env.levels] == BITE).sum()
    assert (by_reward[env.levels :] == BITE).sum() < (best[env.levels :] == BITE).sum()
    assert env.smdp.rate(by_reward) / env.exact().rate == pytest.approx(0.776, abs=5e-4)


def test_with_one_kind_of_patch_the_rate_is_a_ratio_one_can_write_down():
    env = Foraging(first=(1.0, 1.0), chased=1e-12)
    for bites in range(1, 8):
        wanted = sum(0.65**k for k in range(bites)) / (bites + 10.0)
        assert env.smdp.rate(leave_after(env, bites, bites)) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ({"levels": 0}, "levels"),
        ({"first": (1.0, 0.5, 0.2)}, "first"),
        ({"first": (1.0, -0.5)}, "first"),
        ({"first": 1.0}, "give two numbers"),
        ({"keeps": 1.0}, "keeps"),
        ({"travel": 0.0}, "travel"),
        ({"rich": 0.0}, "rich"),
        ({"chased": 0.0}, "chased"),
    ],
)
def test_a_wrong_setting_is_named(setting, field):
    with pytest.raises(InputError, match=field):
        Foraging(**setting)
