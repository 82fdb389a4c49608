"""A run as data frames: the record, column by column."""

import math

import pytest

import made_run
import rewardrate
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.runlog.frames import STEP

pytest.importorskip("pandas")


def test_the_frames_hold_every_attempt_step_and_note(tmp_path):
    folder = made_run.make(tmp_path / "run", config="seed = 7\n[budget]\nsteps = 6\n", fast=True)
    run = rewardrate.load_run(str(folder))
    with RunLog.open(folder, read_only=True) as log:
        attempts, steps, events = log.attempts(), log.steps(), log.events()
    assert (run.about["arm"], run.settings) == ("rpg", {"seed": 7, "budget.steps": 6})
    assert [run.attempts.id.tolist(), run.attempts.code.tolist()] == [
        [a.id for a in attempts],
        [a.code for a in attempts],
    ]
    assert run.attempts.valid.dtype == bool
    assert run.attempts[run.attempts.valid].reward.sum() == pytest.approx(
        math.fsum(a.reward for a in attempts if a.valid)
    )
    assert run.steps.rate_high.tolist() == [step.rate.high for step in steps]
    for name in steps[0].phases:
        assert run.steps[f"seconds_{name}"].tolist() == [step.phases[name] for step in steps]
    for name in steps[-1].metrics.keys() - set(STEP):
        assert run.steps[name].iloc[-1] == steps[-1].metrics[name]
    assert run.events.kind.tolist() == [event.kind for event in events]


def test_a_run_without_a_step_has_its_columns(tmp_path):
    RunLog.create(tmp_path / "run", "", {"task": "diamonds"}).close()
    run = rewardrate.load_run(tmp_path / "run")
    assert (len(run.attempts), len(run.steps), run.settings) == (0, 0, {})
    assert {"reward", "seconds", "valid"} <= set(run.attempts.columns)
    assert list(run.steps.columns) == list(STEP)


def test_what_is_no_run_is_told_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"there is no run\.sqlite in it"):
        rewardrate.load_run(tmp_path)
    RunLog.create(tmp_path / "run", "seed = ", {}).close()
    with pytest.raises(InputError, match=r"its config\.toml is no TOML"):
        rewardrate.load_run(tmp_path / "run")


def test_a_folder_of_runs_is_not_a_run_and_its_runs_are_named(tmp_path):
    for arm in ("rpg", "vanilla"):
        RunLog.create(tmp_path / "demo" / arm, "", {}).close()
    with pytest.raises(InputError, match=r"it is a folder of runs: rpg, vanilla; give one of them: .*demo.rpg"):
        rewardrate.load_run(tmp_path / "demo")
