import pytest

import toy_agent
from rewardrate.errors import InputError
from rewardrate.reports import run as runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Both arms of the toy, trained for a few steps."""
    place = tmp_path_factory.mktemp("both")
    for arm in ("rpg", "vanilla"):
        loop = toy_agent.loop(place / arm, arm=arm, steps=6, batch=4)
        loop.run()
        loop.log.close()
    return place


def test_a_summary_is_what_the_attempts_say(folder):
    found = runs.summary(folder / "rpg")
    read = runs.read(folder / "rpg")
    assert found["attempts"] == 24
    assert found["valid share"] == 1.0
    assert found["mean reward"] == pytest.approx(sum(attempt.reward for attempt in read.attempts) / 24)
    assert found["script seconds"] == pytest.approx(sum(attempt.seconds for attempt in read.attempts))
    assert found["steps"] == 6


def test_both_arms_are_found_below_a_folder_and_compared(folder):
    both = runs.comparison(runs.find(folder))
    assert both is not None
    assert both.rpg.value is not None
    assert runs.comparison(runs.find(folder / "rpg")) is None


def test_the_best_script_is_the_highest_reward_and_then_the_quickest(folder):
    best = runs.read(folder / "vanilla").best
    assert best.reward == 1.5


def test_four_figures_are_drawn_for_one_run_and_for_two(folder):
    for place in (folder, folder / "vanilla"):
        assert set(runs.figures(runs.find(place))) == {"budget", "rate", "attempts", "valid"}


def test_a_folder_without_a_run_and_one_without_a_step_are_told(folder, tmp_path):
    with pytest.raises(InputError, match="there is no run in it"):
        runs.find(tmp_path)
    loop = toy_agent.loop(tmp_path / "new", steps=1)
    loop.log.close()
    with pytest.raises(InputError, match="no finished step yet"):
        runs.read(tmp_path / "new")


def test_runs_of_different_tasks_are_not_compared(folder):
    from dataclasses import replace

    first, second = runs.find(folder)
    with pytest.raises(InputError, match="different tasks or clocks"):
        runs.comparison([first, replace(second, about={**second.about, "task": "another"})])
    assert runs.comparison([first, replace(second, about={**second.about, "seed": "7"})]) is None
