"""The race's objective: what is learnt from adds up to the paper's rewards, and the rate knows no bonus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.environments.speedrun.rewards import RaceRewards, RewardSettings
from rewardrate.training.race import RaceObjective

RACE = RaceRewards()
RPG = RaceObjective(arm="rpg", bonus=0.0, race=RACE)
VANILLA = RaceObjective(arm="vanilla", bonus=0.0, race=RACE)


def outcome(loss, seconds=800.0, status="ok"):
    valid = status == "ok"
    return Outcome(valid, RACE.earned(loss) if valid else 0.0, loss, seconds, "", status, "code")


BATCH = [outcome(3.27), outcome(3.4, 700.0), outcome(3.2, 1.0, "error"), outcome(3.2, 5.0, "sandbox-failure")]


def test_rpg_is_the_paper_s_reward_less_the_price_of_its_time():
    relative, bonuses = RPG.relative(BATCH, 0.01, limit_seconds=1500), RPG.bonuses(BATCH, None)
    assert relative == pytest.approx([6.73 - 8.0, 6.6 - 7.0, -10 - 15.0, None])
    assert bonuses == pytest.approx([6.0, 0.0, 0.0, 0.0])
    assert RPG.rewards(BATCH, 0.01, None, limit_seconds=1500)[0] == pytest.approx(6.73 + 5 + 1 - 8)


def test_vanilla_is_the_paper_s_time_to_the_target():
    relative, bonuses = VANILLA.relative(BATCH, 0.01, limit_seconds=1500), VANILLA.bonuses(BATCH, None)
    assert relative == pytest.approx([-800, -1500, -3000, None])
    assert bonuses == pytest.approx([200, -600, 0, 0])


@given(st.floats(2, 12), st.floats(0.1, 1500))
def test_what_the_buffer_ranks_by_is_what_the_arm_learns_from(loss, seconds):
    one = outcome(loss, seconds)
    for objective, price in ((RPG, 0.01), (VANILLA, 0.0)):
        (learnt,) = objective.rewards([one], 0.01, None, limit_seconds=1500)
        assert objective.worth(one) - price * one.seconds == pytest.approx(learnt)
        assert objective.price(0.01) == price


class Crossings(toy_agent.TwoArms):
    """Every reply crosses the target, each in other seconds."""

    limit_seconds = 1500.0

    def execute(self, replies, on_done=None, parents=None):
        found = [outcome(3.26, 700.0 + 10 * place) for place in range(len(replies))]
        for place, one in enumerate(found):
            on_done(place, one)
        return found


@pytest.mark.parametrize("arm", ["rpg", "vanilla"])
def test_bonuses_never_enter_the_rate(tmp_path, arm):
    """Two runs of the loop whose crossings earn 0 or 1,000 on top: other rewards, the same rates."""
    runs = []
    for bonus in (0.0, 1000.0):
        rewards = RaceRewards(settings=RewardSettings(crossing_bonus=bonus, depth_seconds=bonus))
        loop = toy_agent.loop(tmp_path / f"{bonus:g}", steps=3, batch=8, environment=Crossings())
        loop.objective = RaceObjective(arm=arm, bonus=0.0, race=rewards)
        with loop.log:
            loop.run()
            runs.append(([step.rate for step in loop.log.steps()], [row.bonus for row in loop.log.attempts()]))
    assert runs[0][0] == runs[1][0]
    assert min(runs[1][1]) > max(runs[0][1]) + 10


def test_the_self_improvement_bonus_comes_on_top_where_it_is_set():
    objective = RaceObjective(bonus=0.5, race=RACE)
    assert objective.bonuses([outcome(3.4), outcome(3.2)], RACE.earned(3.3)) == pytest.approx([0.0, 8.5])
