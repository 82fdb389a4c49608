"""What is measured before a plan."""

import sqlite3
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest

import made_run
from rewardrate import config
from rewardrate.environments.environment import EnvironmentSettings
from rewardrate.environments.mle.environment import Settings
from rewardrate.environments.mle.folder import shipped
from rewardrate.errors import InputError
from rewardrate.training.measured import (
    Attempts,
    Pilot,
    budget_of,
    limit_of,
    read_pilot,
    reference_scripts,
)
from rewardrate.training.recipe import Recipe

RECIPE = config.load(Recipe, config.find_recipe("deadline"))


def columns(step, valid, reward, seconds, status=None):
    status = status or ["ok" if one else "error" for one in valid]
    return {"step": step, "valid": valid, "reward": reward, "seconds": seconds, "status": status}


def many(rng, difficulty=0.0):
    """600 attempts in six steps: scripts of 0.5 and 4 s, the slow one valid less often; some end at once."""
    seconds = np.where(rng.random(600) < 0.5, 0.5, 4.0)
    valid = rng.random(600) < 1 / (1 + np.exp(difficulty * np.log(seconds)))
    at_once = ~valid & (rng.random(600) < 0.5)
    reward = np.where(valid, np.where(seconds < 1, 0.6, 0.9) + 0.005 * rng.standard_normal(600), 0.0)
    found = columns(np.repeat(np.arange(1, 7), 100), valid, reward, np.where(at_once, 0.1, seconds))
    return Attempts.of({name: list(values) for name, values in found.items()})


def test_every_task_that_comes_with_the_package_has_scripts_without_any_data():
    for task in shipped():
        found = reference_scripts(replace(RECIPE, task=task))
        assert found.reward.size >= 6
        assert found.reward.max() == pytest.approx(1.0)
        assert (found.reward >= 0).all()
        assert (found.seconds >= 0.1).all()


def test_on_one_core_a_script_takes_its_cpu_seconds():
    one, two = (reference_scripts(replace(RECIPE, environment=Settings(cores=cores))) for cores in (1, 2))
    assert (one.seconds >= two.seconds).all()
    assert one.seconds.max() == pytest.approx(36.88)
    assert two.seconds.max() == pytest.approx(20.287)


def test_limit_and_budget_are_the_recipes_and_the_limit_else_the_tasks():
    assert limit_of(RECIPE) == 12
    assert limit_of(replace(RECIPE, environment=Settings())) == 180
    assert budget_of(RECIPE) == 76
    with pytest.raises(InputError, match=r"environment\.kind"):
        limit_of(config.load(Recipe, config.find_recipe("nanogpt-mini")))


@dataclass(frozen=True)
class Known(EnvironmentSettings):
    """A kind of others that says what a plan needs."""

    kind: Literal["known"] = "known"

    def setup(self, task, clock):
        raise AssertionError("a plan prepares nothing")

    def planned_limit(self, task):
        return 7.0

    def planned_scripts(self, task):
        return [(0.5, 1.0), (1.0, 3.0)]


def test_a_kind_of_others_can_be_planned_for_once_it_says_its_limit_and_scripts():
    recipe = replace(RECIPE, environment=Known())
    assert limit_of(recipe) == 7
    assert reference_scripts(recipe).reward.tolist() == [0.5, 1.0]
    assert reference_scripts(recipe).seconds.tolist() == [1.0, 3.0]
    silent = config.load(Recipe, config.find_recipe("sql-tuning"))
    with pytest.raises(InputError, match=r"environment\.kind.*give the folder of a run"):
        reference_scripts(silent)


def test_a_task_without_measured_scripts_says_what_to_do(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    for file in ("config.yaml", "prepare.py", "grade.py", "description.md"):
        text = (shipped()["diamonds"] / file).read_text()
        (folder / file).write_text(text.replace("id: diamonds", "id: bare"))
    with pytest.raises(InputError, match=r"measured seconds.*--measure"):
        reference_scripts(replace(RECIPE, task=str(folder)))


def test_valid_attempts_become_scripts_by_reward_and_seconds():
    found = many(np.random.default_rng(0)).scripts()
    quick, slow = found.seconds < 1, found.seconds > 1
    assert found.reward[quick] == pytest.approx(0.6, abs=0.02)
    assert found.seconds[slow] == pytest.approx(4.0)
    assert found.seen.sum() == pytest.approx(100, abs=15)  # a half of the first 200, and 1/2 a script
    with pytest.raises(InputError, match="at least 10 valid"):
        Attempts.of(columns([1] * 4, [True] * 4, [0.5] * 4, [1.0] * 4)).scripts()


def test_failures_of_the_sandbox_are_left_out_and_steps_are_means():
    found = Attempts.of(columns([1, 1, 1, 2], [1, 0, 0, 1], [0.5, None, None, 1.0], [2.0, 4.0, 9.0, 0.01],
                                ["ok", "error", "sandbox-failure", "ok"]))  # fmt: skip
    np.testing.assert_allclose(found.by_step, [[0.5, 0.25, 3.0], [1.0, 1.0, 0.1]])
    assert found.no_program() == (0, 1)


def test_the_difficulty_of_slow_scripts_is_estimated_within_its_error():
    estimates = []
    for seed in range(40):
        estimate, error = many(np.random.default_rng(seed), difficulty=0.8).difficulty()
        estimates.append(estimate)
    # 200 early attempts, half of the failures left out with those that ended at once: the slope stays. 40 estimates of
    # standard error 0.16: the mean is within 0.1 but for one sample in 10,000.
    assert np.mean(estimates) == pytest.approx(0.8, abs=0.1)
    assert error == pytest.approx(np.std(estimates), rel=0.5)
    assert np.isfinite(Attempts.of(columns([1] * 12, [True] * 12, [0.5] * 12, [1.0] * 12)).difficulty()).all()


def test_a_run_folder_is_a_pilot(tmp_path):
    text = config.dumps(replace(RECIPE, batch=8).with_arm("vanilla"))
    folder = made_run.make(tmp_path / "run", arm="vanilla", steps=6, batch=8, config=text, fast=True)
    pilot = read_pilot(folder)
    assert pilot.by_step.shape == (6, 3)
    assert pilot.first[1] == 8
    assert pilot.price.arm == "vanilla"
    assert pilot.setting.budget == 1216 / 8
    assert pilot.attempts.scripts().reward.size > 2
    without = Pilot(
        replace(pilot.recipe, budget=replace(pilot.recipe.budget, script_seconds=None, steps=6)), pilot.by_step
    )
    assert without.setting.budget == pytest.approx(pilot.by_step[:, 2].sum())
    with sqlite3.connect(folder / "run.sqlite") as db:
        db.execute("DELETE FROM attempts_rows")
        db.execute("DELETE FROM steps")
    db.close()
    with pytest.raises(InputError, match="no finished step"):
        read_pilot(folder)
