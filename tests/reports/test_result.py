import made_run
from rewardrate.reports.result import many_tasks, one_task, runs_table
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
    assert "Train the other arm" in one_task(one)
    alone = experiments(find(many / "digits8x8" / "s0" / "rpg") + find(many / "grants" / "s0" / "rpg"))
    assert "no task has a finished run of each arm" in many_tasks(alone)


def test_every_run_has_its_line(many):
    assert runs_table(find(many)).count("<tr>") == 13
