from dataclasses import replace

from rewardrate.reports.evaluation import Interval
from rewardrate.reports.result import many_tasks, one_task, runs_table, verdict
from rewardrate.reports.run import experiments, find


def test_the_verdict_says_no_more_than_the_interval_of_the_difference(both):
    found = experiments(find(both))[0].compare()
    for difference, words in (
        (Interval(0.1, -0.1, 0.2), "cannot be told apart"),
        (Interval(0.1, 0.05, 0.2), "rpg is ahead of vanilla by 0.100"),
        (Interval(-0.1, -0.2, -0.05), "vanilla is ahead of rpg by 0.100"),
        (Interval(None, None, None), "nothing to compare yet"),
    ):
        assert words in verdict(replace(found, difference=difference))
    one = replace(found, difference=Interval(0.1, 0.05, 0.2))
    assert "train more seeds" in verdict(one)
    several = replace(one, rpg_curves=one.rpg_curves.repeat(2, axis=0))
    assert "train more seeds" not in verdict(several)


def test_one_task_shows_four_ways_to_compare_and_several_tasks_the_papers_table(both, many):
    (one,) = experiments(find(both))
    assert one_task(one).count("<tr>") == 5
    shown = many_tasks(experiments(find(many)))
    assert "mean improvement without the best and the worst task" in shown
    assert "tasks on which rpg is ahead and behind" in shown


def test_runs_that_cannot_be_paired_are_shown_alone(both, many):
    (one,) = experiments(find(both / "rpg"))
    assert "Train the other arm" in one_task(one)
    alone = experiments(find(many / "digits8x8" / "s0" / "rpg") + find(many / "grants" / "s0" / "rpg"))
    assert "no task has a finished run of each arm" in many_tasks(alone)


def test_every_run_has_its_line(many):
    assert runs_table(find(many)).count("<tr>") == 13
