"""Figures and tables of the bandit study."""

import sqlite3

import pytest

from rewardrate.bandits import StudyConfig, study
from rewardrate.errors import InputError
from rewardrate.reports.bandits import (
    AgentCurve,
    Study,
    _scale,
    draw_all,
    draw_experiment,
    style_of,
)
from rewardrate.reports.style import pyplot


@pytest.mark.parametrize("order", [(300.0, 99.0), (99.0, 300.0)])
def test_panels_that_share_an_axis_cut_off_the_least_of_none(order):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, sharey=True)
    for axis, least in zip(axes, order, strict=True):
        axis.plot([5, 10], [least, 1e4])
        _scale(axis)
    assert all(axis.get_ylim()[0] < 99 for axis in axes)
    plt.close(figure)


@pytest.mark.parametrize("order", [(900, 2800, 3100), (3100, 2800, 900)])
def test_panels_that_share_an_axis_cut_off_the_most_of_none(order):
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, sharey=True)
    for axis, most in zip(axes, order, strict=True):
        axis.plot([5, 10], [800, most])
        axis.fill_between([5, 10], [800, most - 50], [800, most + 200])
        _scale(axis)
    assert all(3300 < axis.get_ylim()[1] < 5000 for axis in axes)
    plt.close(figure)


@pytest.mark.parametrize("regrets", [(2100.0, 9800.0), (99.0, 1e4), (300.0, 450.0), (30.0, 2500.0), (-5.0, 1e4)])
def test_an_axis_of_regrets_has_at_least_two_numbers(regrets):
    plt = pyplot()
    figure, axis = plt.subplots()
    axis.plot([5, 10], regrets)
    _scale(axis)
    figure.canvas.draw()
    low, high = axis.get_ylim()
    shown = [
        label for place, label in zip(axis.get_yticks(), axis.get_yticklabels(), strict=True) if low <= place <= high
    ]
    assert sum(bool(label.get_text()) for label in shown) >= 2
    plt.close(figure)


def test_every_figure_is_drawn_as_svg_and_png(results, tmp_path):
    paths = draw_all(results, tmp_path)
    names = {path.name for path in paths}
    kinds = ("horizon", "pseudo", "curves", "prices", "tuning-npg", "tuning-cucb")
    assert names == {f"{kind}-x4.{ending}" for kind in kinds for ending in ("svg", "png")}
    assert all(path.stat().st_size > 8000 for path in paths)
    text = (tmp_path / "horizon-x4.svg").read_text()
    assert "NPG-NIW" in text
    assert "totals" in text
    assert "regret after 400 steps" in text


def test_agents_keep_their_colours():
    agents = ["npg", "mine", "yours"]
    assert style_of("npg", agents)[2] == "NPG-NIW"
    assert style_of("mine", agents)[0] != style_of("yours", agents)[0]


def test_one_experiment_is_one_figure(tmp_path):
    curve = AgentCurve("npg", [1, 10, 100], [1.0, 20.0, 300.0], [0.0, 10.0, 200.0], [2.0, 30.0, 400.0], [0.0, 0.5, 0.7])
    svg, png = draw_experiment([curve], 0.7, "a title", tmp_path / "one")
    assert "optimal rate 0.700" in svg.read_text()
    assert png.stat().st_size > 8000


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        Study(tmp_path / "none.sqlite")
    (tmp_path / "words.sqlite").write_text("words " * 100)
    with pytest.raises(InputError, match="damaged, or no study"):
        Study(tmp_path / "words.sqlite")


def test_a_study_without_results_is_reported(tmp_path, results):
    path = tmp_path / "empty.sqlite"
    path.write_bytes(results.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM curves")
    connection.commit()
    connection.execute("UPDATE about SET value = 'older' WHERE name = 'format'")
    connection.close()
    with pytest.raises(InputError, match="no agent has been evaluated yet"):
        Study(path)


def test_a_grid_of_words_is_drawn_too(tmp_path):
    settings = StudyConfig(
        families=("E1",),
        arms=(5,),
        agents=("npg learning_rate=0.1,1 age=60 estimator=niw,totals", "cucb c1=1 c2=0.1,1 policies=none,8"),
        steps=60,
        marks=4,
        tuning_seeds=(900, 901),
        evaluation_seeds=(0, 1),
        resamples=10,
    )
    path = study(settings, tmp_path / "a #1 % ?" / "study.sqlite")
    names = {figure.name for figure in draw_all(path, tmp_path / "figures")}
    assert {"tuning-npg-x4.png", "tuning-cucb-x4.png"} <= names
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a #1 % ?", "figures"]


def test_a_study_that_is_not_finished_says_so(results, unfinished):
    assert Study(results).missing == ""
    assert Study(unfinished).missing == "Not finished: 10 of 12 cells are evaluated."


def test_beside_exact_search_the_other_one_is_called_sampled():
    assert style_of("cucb", ["cucb", "cucb-exact"])[2] == "C-UCB, sampled"
    assert style_of("cucb", ["cucb", "npg"])[2] == "C-UCB, tuned"
