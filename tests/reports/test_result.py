import re

import pytest

import made_run
from rewardrate.reports.evaluation import Interval
from rewardrate.reports.result import MEANINGS, _percent, duration, many_tasks, one_task, runs_table
from rewardrate.reports.run import experiments, find


def test_one_task_shows_six_values_at_T_and_six_of_its_time_and_several_tasks_the_papers_table(both, many):
    (one,) = experiments(find(both))
    assert one_task(one).count("<tr>") == 7 + 7
    shown = many_tasks(experiments(find(many)))
    assert "mean improvement without the best and the worst task" in shown
    assert "tasks on which rpg is ahead and behind" in shown


def test_a_third_arm_has_a_part_of_its_own(both, tmp_path):
    horizon = made_run.make(tmp_path / "horizon", arm="horizon", steps=6, batch=8)
    (one,) = experiments([*find(both), *find(horizon)])
    shown = one_task(one)
    assert "rpg and vanilla at equal time" in shown
    assert "horizon and vanilla at equal time" in shown
    assert "Reward per second: horizon " in shown
    assert "horizon and vanilla on every task" in many_tasks([one])


def test_runs_that_cannot_be_paired_are_shown_alone(both, many):
    (one,) = experiments(find(both / "rpg"))
    assert "train --arm vanilla with the same seed" in one_task(one)
    alone = experiments(find(many / "digits8x8" / "s0" / "rpg") + find(many / "grants" / "s0" / "rpg"))
    assert "no task has a finished run of each arm" in many_tasks(alone)


def test_every_run_has_its_line(many):
    assert runs_table(find(many)).count("<tr>") == 13


def test_the_first_screen_answers_whether_pricing_time_was_worth_it(both):
    (one,) = experiments(find(both))
    shown = one_task(one)
    verdict = re.search(r'<p class="verdict"><strong>(.*?)</strong>(.*?)</p>', shown)
    assert verdict[1].endswith(".")
    assert verdict[2].count("; n = 1 seed of 8 chains.") == 2, "both sentences say what they rest on"
    arms = r'<b class="rpg">([^<]*)<i>rpg</i></b><b class="vanilla">([^<]*)<i>vanilla</i></b>'
    tiles = re.findall(rf'<div class="tile"><strong class="duel">{arms}', shown)
    rate, seconds, held, wall = tiles
    found = one.efficiency()
    assert rate == tuple(f"{getattr(found['reward_per_second'], arm).value:.3f}" for arm in ("rpg", "vanilla"))
    assert seconds == tuple(f"{getattr(found['seconds_per_attempt'], arm).value:.2f}" for arm in ("rpg", "vanilla"))
    assert held == ("0.900", "0.900")
    assert wall == ("18", "18")
    assert "seconds of wall time for training" in shown
    saves = found["seconds_per_attempt"].difference.sign != 0
    assert ("rpg saves" in shown or "rpg costs" in shown) == saves, "nothing is saved that an interval does not show"


def test_the_words_of_the_page_are_one_click_away(both):
    for shown in (one_task(experiments(find(both))[0]), one_task(experiments(find(both / "rpg"))[0])):
        words = re.search(r"<details><summary>What do rpg, vanilla, chain and T mean.*?</details>", shown)[0]
        assert all(f"<dt>{word}</dt>" in words for word in MEANINGS)


def test_a_percentage_is_large_only_where_its_interval_excludes_0():
    assert _percent(Interval(18.3, 2.0, 40.0)) == "+18.3 %"
    assert _percent(Interval(18.3, -2.0, 40.0)) == "none shown"
    assert _percent(Interval(18.3, None, None)) == "none shown"
    assert _percent(Interval(None, None, None)) == "none shown"


def test_difference_and_improvement_have_one_sign_also_where_lower_is_better(tmp_path):
    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=6, batch=8, task="diamonds", fast=True)
    (one,) = experiments(find(tmp_path))
    assert one.higher_is_better is False
    found = one.compare("score", "best-so-far")
    assert found.advantage.value == -found.difference.value
    assert (found.advantage.low, found.advantage.high) == (-found.difference.high, -found.difference.low)
    row = re.search(r"<td>mean score, best so far</td>(.*?)</tr>", one_task(one))[1]
    better, percent = re.findall(r">([+-][\d.]+) \(", row)
    assert better[0] == percent[0]


@pytest.mark.parametrize(("seconds", "text"), [(0, "-"), (12, "12 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")])
def test_wall_time_reads_like_speech(seconds, text):
    assert duration(seconds) == text
