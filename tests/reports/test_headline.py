"""The first sentences say no more than the intervals allow."""

import pytest

from rewardrate.reports import headline, tables
from rewardrate.reports.evaluation import Interval, Paired
from rewardrate.reports.run import experiments, find


def paired(low, high):
    middle = Interval(0.5, 0.4, 0.6)
    return Paired(middle, middle, Interval((low + high) / 2, low, high))


MORE, LESS, SAME = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2)


@pytest.mark.parametrize(
    ("per_second", "at_end", "words"),
    [
        (MORE, MORE, "Pricing time paid: more reward per second, and more reward at equal time"),
        (MORE, SAME, "at equal time no difference is shown"),
        (MORE, LESS, "cost reward at equal time"),
        (SAME, SAME, "It cannot be said yet"),
        (SAME, LESS, "did not pay"),
        (LESS, SAME, "did not pay"),
        (LESS, LESS, "did not pay"),
        (SAME, MORE, "paid at equal time"),
        (LESS, MORE, "though it earned less reward per second"),
    ],
)
def test_the_meaning_follows_from_both_intervals(per_second, at_end, words):
    said = headline.meaning(paired(*per_second), paired(*at_end), 5)
    assert words in said
    assert said.endswith("(5 seeds).")


@pytest.mark.parametrize(
    ("per_second", "at_end", "seen"),
    [
        (MORE, MORE, "more reward per second, and more reward at equal time"),
        (MORE, SAME, "more reward per second, and no clear difference in reward at equal time"),
        (LESS, MORE, "less reward per second, and more reward at equal time"),
        (SAME, SAME, "no clear difference in reward per second, and no clear difference in reward at equal time"),
    ],
)
def test_one_seed_says_what_was_seen_and_carries_no_verdict(per_second, at_end, seen):
    said = headline.meaning(paired(*per_second), paired(*at_end), 1)
    first, second = said.split(". ")
    assert first == f"It cannot be said yet whether pricing time paid: this one pair of runs has {seen}"
    assert "chains of these two runs, which share one policy in each, and no repetition of training" in second
    assert not any(words in said for words in headline.VERDICTS.values())


def test_few_seeds_are_a_verdict_with_a_warning():
    assert "(2 seeds). With fewer than 5 these intervals are too narrow" in headline.meaning(
        paired(*MORE), paired(*SAME), 2
    )


def test_nothing_to_compare_is_said():
    nothing = Interval(None, None, None)
    assert "nothing to compare" in headline.meaning(Paired(nothing, nothing, nothing), paired(*MORE), 3)


def test_one_task_begins_with_reward_per_second_and_reward_at_equal_time(both):
    (one,) = experiments(find(both))
    first, second, third = headline.one_task(one)
    found = one.efficiency()["reward_per_second"]
    assert first.startswith(f"Reward per second: rpg {found.rpg.value:.3f} (")
    assert f"T = {one.final:.0f} s of script time per chain, which every run has used on average" in second
    assert third
    assert first.endswith("; n = 1 seed of 8 chains.")
    assert second.endswith("; n = 1 seed of 8 chains.")
    assert headline.one_task(experiments(find(both / "rpg"))[0]) == []


def test_several_tasks_are_counted_with_a_sign_test(many):
    found = experiments(find(many))
    first, second, third = headline.many_tasks(found, tables.table(found))
    ahead = sum(one.efficiency()["reward_per_second"].difference.value > 0 for one in found)
    assert f"rpg is ahead on {ahead} of 3 tasks" in first
    assert "sign test p = " in second
    assert third.startswith("It cannot be said yet whether pricing time paid (3 tasks, 2 seeds of each arm, ")


@pytest.mark.parametrize(("ahead", "behind", "sign"), [(7, 0, 1), (0, 7, -1), (5, 2, 0), (3, 0, 0)])
def test_over_tasks_an_arm_is_ahead_where_a_sign_test_says_so(ahead, behind, sign):
    assert headline._sign([paired(*MORE)] * ahead + [paired(*LESS)] * behind) == sign


def test_the_sign_test_is_the_binomial_one():
    assert tables.sign_test(20, 2) == pytest.approx(2 * sum((1, 22, 231)) / 2**22)
    assert tables.sign_test(1, 1) == 1.0
    assert tables.sign_test(0, 0) == 1.0
