from itertools import pairwise

import numpy as np
import pytest

import made_run
from rewardrate.reports import charts as room
from rewardrate.reports.evaluation import curve
from rewardrate.reports.run import experiments, find, read


@pytest.fixture(scope="module")
def experiment(both):
    return experiments(find(both))[0]


def line(chart, label):
    return next(one for one in chart.lines if one.label == label and not one.faint)


def test_shares_of_failures_and_of_valid_attempts_add_up_to_one(experiment):
    for label in ("rpg", "vanilla"):
        failed = sum(area.y for area in room.failures(experiment, label).areas)
        valid = line(room.valid_share(experiment), label).y
        assert failed + valid == pytest.approx(np.ones(6))


def test_seconds_are_the_mean_of_a_steps_valid_attempts(experiment):
    drawn = line(room.seconds(experiment), "rpg")
    rows = [row for row in experiment.arms["rpg"][0].attempts if row.step == 3 and row.valid]
    assert drawn.y[2] == pytest.approx(np.mean([row.seconds for row in rows]))


def test_reward_is_the_mean_of_a_steps_valid_attempts_before_time_is_charged(experiment):
    drawn = line(room.reward(experiment), "rpg")
    rows = [row for row in experiment.arms["rpg"][0].attempts if row.step == 3 and row.valid]
    assert drawn.y[2] == pytest.approx(np.mean([row.reward for row in rows]))
    assert any(row.relative_reward != row.reward for row in rows)


def test_rewards_far_above_0_are_not_drawn_as_one_flat_line(experiment, tmp_path):
    assert room.reward(experiment).y_range == (0, None)
    far = made_run.make(tmp_path, spoil=lambda _, one: one | {"reward": 7 + 0.1 * one["reward"]}, fast=True)
    assert room.reward(experiments(find(far))[0]).y_range == (None, None)


def test_small_charts_of_steps_name_their_task(experiment):
    names = [chart.title for chart in room.over_steps(experiment, small=True)]
    assert all(name.startswith(f"{experiment.task}: ") for name in names)
    assert [chart.name for chart in room.over_steps(experiment)] == ["valid", "reward", "seconds"]


def test_nothing_lies_beyond_the_front(experiment):
    chart = room.attempts(experiment, "rpg")
    edge = chart.points.front
    assert list(edge) == sorted(edge)
    assert all(earlier[1] < later[1] for earlier, later in pairwise(edge))
    for x, y in zip(chart.points.x, chart.points.y, strict=True):
        assert any(other[0] <= x and other[1] >= y for other in edge)


def test_the_front_of_a_metric_to_minimise_falls():
    x, y = np.array([1.0, 2.0, 3.0, 3.0]), np.array([5.0, 6.0, 4.0, 3.0])
    assert room.front(x, y, higher_is_better=False) == [(1.0, 5.0), (3.0, 3.0)]
    assert room.front(x, y) == [(1.0, 5.0), (2.0, 6.0)]


def test_a_chain_that_invented_nothing_earns_time_and_no_reward(tmp_path):
    def fail(_, fields):
        return fields | {"valid": False, "reward": 0.0, "score": None, "status": "error", "seconds": 2.0}

    run = read(made_run.make(tmp_path / "run", steps=3, batch=2, spoil=fail))
    x, y = room.cumulative_path(run)
    assert x.tolist() == [0, 2, 4, 6]
    assert y.tolist() == [0, 0, 0, 0]


def test_budget_curves_end_at_the_T_of_the_comparison(experiment):
    for metric in ("reward", "score"):
        chart = room.budget(experiment, metric)
        both = experiment.compare(metric)
        shown_at_end = lambda arm, metric=metric, both=both: curve(
            [experiment.arms[arm][0].chains_of(metric)], np.array([both.final])
        )[0, -1]
        assert line(chart, "rpg").x[-1] == pytest.approx(both.final)
        assert line(chart, "rpg").y[-1] == pytest.approx(shown_at_end("rpg"))
        assert line(chart, "vanilla").y[-1] == pytest.approx(shown_at_end("vanilla"))


def test_repetitions_are_faint_lines_behind_their_mean(many):
    one = experiments(find(many))[0]
    chart = room.budget(one, "reward")
    assert sum(each.faint for each in chart.lines) == 4
    assert len([each for each in room.rate(one).lines if each.label == "rpg, seed 1"]) == 1


def test_the_frontier_over_price_scales_is_drawn_when_there_are_three(both, experiment, tmp_path):
    assert room.frontier(experiment) is None
    config = '[objective]\narm = "rpg"\nprice_scale = 0.5\n'
    half = made_run.make(tmp_path / "half", steps=4, batch=8, config=config, seed=5)
    (one,) = experiments([*find(both), read(half)])
    chart = room.frontier(one)
    assert [each.label for each in chart.lines if each.label] == ["price scale 0", "price scale 0.5", "price scale 1"]
    late = [row for row in one.arms["rpg"][0].valid if row.step > 4.5]
    assert line(chart, "price scale 1").y[0] == pytest.approx(np.mean([row.reward for row in late]))


def test_health_is_drawn_for_what_the_learner_wrote(experiment, tmp_path):
    assert [chart.name for chart in room.health(experiment)] == [f"health-{key}" for key in room.HEALTH]
    silent = made_run.make(tmp_path / "run", steps=2, batch=2, learner=False)
    assert room.health(experiments([read(silent)])[0]) == []


def test_what_cannot_be_negative_is_drawn_from_0(experiment):
    ranges = {one.name.removeprefix("health-"): one.y_range for one in room.health(experiment)}
    assert {name for name, limits in ranges.items() if limits == (0, None)} == {"entropy", "clip_share", "value_loss"}


def test_more_dots_than_can_be_told_apart_are_thinned_out_and_the_front_is_kept(experiment, monkeypatch):
    monkeypatch.setattr(room, "POINTS", 10)
    chart = room.attempts(experiment, "rpg")
    assert chart.points.x.size == 10
    assert "10 of " in chart.caption


def test_no_kind_of_failure_has_an_arms_colour():
    arms = set(room.colors(["rpg", "vanilla"]).values())
    assert arms.isdisjoint(room.KINDS.values())
    assert len(set(room.KINDS.values())) == len(room.KINDS)


def test_an_arm_in_which_nothing_failed_has_no_empty_chart(tmp_path):
    folder = made_run.make(tmp_path / "rpg", steps=2, batch=3, valid=1.0)
    (one,) = experiments([read(folder)])
    assert not [made for made in room.charts(one) if made.name.startswith("failures")]
