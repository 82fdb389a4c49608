"""The rewards of the race in the loop: what is learnt from adds up to the paper's; the rate knows no bonus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.environments.speedrun.rewards import RaceRewards, RewardSettings
from rewardrate.rates import Accumulators, Fixed
from rewardrate.training.buffer import SolutionBuffer
from rewardrate.training.objective import Objective
from rewardrate.training.pricer import Pricer

RACE = RaceRewards()


def pricer(arm, **settings):
    settings = {"bonus": 0.0, **settings}
    return Pricer(RACE, Objective(arm=arm, **settings), Fixed(0.01), Accumulators(4), buffer=SolutionBuffer(8))


def outcome(loss, seconds=800.0, status="ok"):
    valid = status == "ok"
    return Outcome(valid, RACE.earned(loss) if valid else 0.0, loss, seconds, "", status, f"code {loss} {seconds}")


BATCH = [outcome(3.27), outcome(3.4, 700.0), outcome(3.2, 1.0, "error"), outcome(3.2, 5.0, "sandbox-failure")]


def test_rpg_is_the_paper_s_reward_less_the_price_of_its_time():
    priced = pricer("rpg").price(BATCH, step=1, attempts=range(1, 5))
    assert priced.relative == pytest.approx([6.73 - 8.0, 6.6 - 7.0, -10 - 15.0, None])
    assert priced.bonuses == pytest.approx([6.0, 0.0, 0.0, 0.0])
    assert priced.rewards[0] == pytest.approx(6.73 + 5 + 1 - 8)
    assert priced.price == 0.01


def test_vanilla_is_the_paper_s_time_to_the_target():
    priced = pricer("vanilla").price(BATCH, step=1, attempts=range(1, 5))
    assert priced.relative == pytest.approx([-800, -1500, -3000, None])
    assert priced.bonuses == pytest.approx([200, -600, 0, 0])
    assert priced.price == 0.0


@given(st.floats(2, 12), st.floats(0.1, 1500))
def test_what_the_buffer_ranks_by_is_what_the_arm_learns_from(loss, seconds):
    for arm, price in (("rpg", 0.01), ("vanilla", 0.0)):
        made = pricer(arm)
        priced = made.price([outcome(loss, seconds)] * 4, step=1, attempts=range(1, 5))
        assert made.buffer.select(1)[0].key(price) == pytest.approx(priced.rewards[0])


class Crossings(toy_agent.TwoArms):
    """Every reply crosses the target, each in other seconds."""

    limit_seconds = 1500.0

    def __init__(self, bonus):
        super().__init__()
        self.rewards = RaceRewards(settings=RewardSettings(crossing_bonus=bonus, depth_seconds=bonus))
        self.extra_reward, self.vanilla_reward = self.rewards.extra_reward, self.rewards.vanilla_reward

    def stream(self, replies, parents=None):
        for place in range(len(replies)):
            yield place, outcome(3.26, 700.0 + 10 * place)


@pytest.mark.parametrize("arm", ["rpg", "vanilla"])
def test_bonuses_never_enter_the_rate(tmp_path, arm):
    """Two runs of the loop whose crossings earn 0 or 1,000 on top: other rewards, the same rates."""
    runs = []
    for bonus in (0.0, 1000.0):
        loop = toy_agent.loop(tmp_path / f"{bonus:g}", arm=arm, steps=3, batch=8, environment=Crossings(bonus))
        with loop.log:
            loop.run()
            runs.append(([step.rate for step in loop.log.steps()], [row.bonus for row in loop.log.attempts()]))
    assert runs[0][0] == runs[1][0]
    assert min(runs[1][1]) > max(runs[0][1]) + 10


def test_the_self_improvement_bonus_comes_on_top_where_it_is_set():
    made = pricer("rpg", bonus=0.5)
    made.price([outcome(3.3)] * 4, step=1, attempts=range(1, 5))
    priced = made.price([outcome(3.4), outcome(3.2), outcome(3.4), outcome(3.4)], step=2, attempts=range(5, 9))
    assert priced.bonuses == pytest.approx([0.0, 8.5, 0.0, 0.0])
