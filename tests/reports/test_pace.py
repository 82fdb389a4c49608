"""Charts of the wall clock: where a step's time goes, how old attempts are, how idle the slots."""

import re
from dataclasses import replace

import numpy as np
import pytest

import made_run
import toy_agent
from rewardrate.reports import charts, page, result
from rewardrate.reports import pace as room
from rewardrate.reports.run import experiments, find, read
from rewardrate.runlog import EventRow


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """A run whose chains do not wait; half of the time its two slots are idle."""
    folder = tmp_path_factory.mktemp("stream") / "run"
    loop = toy_agent.stream_loop(folder, steps=8, batch=4, age=2)
    clock = iter(range(100))
    loop.usage = lambda: (0.0 * next(clock), 2)
    with loop.log:
        loop.run()
    return folder


def test_the_phases_of_a_step_add_up_to_its_time_on_the_wall_clock(stream, both):
    for folder in (stream, both):
        experiment = experiments(find(folder))[0]
        for label, runs in experiment.arms.items():
            drawn = sum(area.y for area in room.phases(experiment, label).areas)
            assert drawn == pytest.approx([sum(step.phases.values()) for step in runs[0].steps])


def test_ages_and_idle_slots_are_those_of_the_record_and_drawn_for_streams_alone(stream, both):
    experiment = experiments(find(stream))[0]
    run = experiment.runs[0]
    of_mean, of_largest = room.age(experiment).lines
    ages = np.array([[row.step - 1 - row.updates for row in run.by_step[step.step]] for step in run.steps])
    assert of_mean.y == pytest.approx(ages.mean(axis=1))
    assert of_largest.y == pytest.approx(ages.max(axis=1))
    assert room.idle(experiment).lines[0].y == pytest.approx(np.ones(8))
    assert [one.name for one in room.pace(experiment)] == ["phases-rpg", "age", "idle"]
    assert [one.name for one in room.pace(experiments(find(both))[0])] == ["phases-rpg", "phases-vanilla"]


def test_the_page_of_a_stream_says_how_many_attempts_are_in_no_step(stream):
    run = read(stream)
    done, begun = run.under_way
    assert begun > done
    said = page._conditions(run)
    assert any(f"{begun} attempts that began are in no step, or not yet; {done} of them" in note for note in said)
    assert not any("under way" in note for note in said)


@pytest.mark.parametrize(
    ("budget", "events", "ended"),
    [
        ("steps = 8", [], True),
        ("steps = 9", [], False),
        ("steps = 8", ["steps = 20"], False),
        ("steps = 8", ["steps = None"], False),
        ("script_seconds = 1.0", [], True),
        ("script_seconds = 1e9", ["script_seconds = 2.0"], True),
        ("wall_seconds = 1e9", [], False),
    ],
)
def test_the_page_of_a_stream_that_used_up_its_budget_says_so_and_names_no_step_under_way(
    stream, budget, events, ended
):
    run = read(stream)
    added = tuple(EventRow(0.0, 8, "budget", message) for message in events)
    run = replace(run, config_text=f"[budget]\n{budget}\n", events=run.events + added)
    done, begun = run.under_way
    assert run.ended is ended
    assert ("<td>8 +</td>" in re.sub("<td[^>]*>", "<td>", result.runs_table([run]))) is not ended
    (note,) = [note for note in page._conditions(run) if f"{begun} attempts" in note]
    assert (
        f"its budget is used up. {begun} attempts that had begun are in no step ({done} of them ended)" in note
    ) is ended


def test_cumulative_reward_of_a_stream_grows_step_by_step_and_ends_at_the_totals(stream):
    """By place in the chain its end would be drawn by the chains with quick attempts alone."""
    run = read(stream)
    x, y = charts.cumulative_path(run)
    assert x.size == len(run.steps) + 1
    assert x[-1] == pytest.approx(run.chains.total.mean())
    assert y[-1] == pytest.approx(sum(row.reward for row in run.valid) / 4)
    assert np.diff(x) == pytest.approx([sum(row.seconds for row in run.by_step[step.step]) / 4 for step in run.steps])


def test_a_record_without_phases_has_no_such_chart(tmp_path):
    folder = made_run.make(tmp_path / "run", steps=2, batch=2)
    experiment = experiments(find(folder))[0]
    for step in experiment.runs[0].steps:
        step.phases.clear()
    assert room.pace(experiment) == []
