"""The study: tuned on its own seeds, evaluated on others, killed and resumed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from rewardrate import config
from rewardrate.bandits import NPG, StudyConfig, World, simulate, study
from rewardrate.bandits.results import Results
from rewardrate.errors import InputError

SMALL = {
    "families": ["E1", "E4"],
    "arms": [5],
    "agents": ["npg learning_rate=0.3,1 age=60,500", "spg learning_rate=1 age=60"],
    "steps": 300,
    "marks": 10,
    "tuning_seeds": [900, 904],
    "evaluation_seeds": [0, 6],
    "resamples": 50,
}


def small(**change):
    return config.build(StudyConfig, SMALL | change)


def tables(path):
    """Everything but how long it took."""
    with Results.open(path) as results:
        return {name: [tuple(row) for row in results.rows(name)] for name in ("tuning", "evaluation", "curves")}


def test_a_study_tunes_selects_by_median_and_evaluates_on_held_out_seeds(tmp_path):
    path = study(small(), tmp_path / "s.sqlite")
    found = tables(path)
    world = World("E1", 5, 4)
    medians = {}
    for rate in (0.3, 1):
        for age in (60, 500):
            regret = simulate(world, NPG(rate, age), range(900, 905), 300).final_regret
            medians[rate, age] = np.median(regret)
    best = min(medians, key=medians.get)
    with Results.open(path) as results:
        rows = [row for row in results.rows("tuning") if row["family"] == "E1" and row["agent"] == "npg"]
        assert [row["median"] for row in rows] == pytest.approx(list(medians.values()))
        (chosen,) = [json.loads(row["settings"]) for row in rows if row["selected"]]
        assert chosen == {"learning_rate": best[0], "age": best[1]}
        regret = simulate(world, NPG(*best), range(7), 300).final_regret
        rows = [row for row in results.rows("evaluation") if row["family"] == "E1" and row["agent"] == "npg"]
        assert [row["regret"] for row in rows] == pytest.approx(regret)
        last = [row for row in results.rows("curves") if row["family"] == "E1" and row["agent"] == "npg"][-1]
        assert last["step"] == 300
        assert last["regret_low"] < last["regret"] < last["regret_high"]
        assert last["regret"] == pytest.approx(regret.mean())
        assert last["n"] == 7
    assert len(found["tuning"]) == 2 * 5
    assert len(found["evaluation"]) == 2 * 2 * 7


def test_workers_and_repeats_change_nothing(tmp_path):
    one = tables(study(small(), tmp_path / "one.sqlite"))
    two = tables(study(small(), tmp_path / "two.sqlite", workers=2))
    assert one == two
    seen = []
    again = tables(study(small(), tmp_path / "one.sqlite", progress=seen.append))
    assert again == one
    assert set(seen) == {small().trials()}, "nothing was left to do"


def test_a_study_killed_with_sigkill_goes_on_and_ends_with_the_same_table(tmp_path):
    recipe = tmp_path / "recipe.toml"
    big = SMALL | {"arms": [5, 6, 7, 8, 9], "steps": 3000}
    recipe.write_text(config.dumps(config.build(StudyConfig, big)))
    whole = tables(study(config.load(StudyConfig, recipe), tmp_path / "whole.sqlite"))
    code = (
        "import sys; from pathlib import Path; from rewardrate import config; "
        "from rewardrate.bandits import StudyConfig, study; "
        "study(config.load(StudyConfig, Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    path = tmp_path / "killed.sqlite"
    command = [sys.executable, "-c", code, str(recipe), str(path)]
    kills = 0
    for cells in (3, 9):
        process = subprocess.Popen(command)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None and _cells(path) < cells:
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 1
    assert 3 <= _cells(path) < 40
    study(config.load(StudyConfig, recipe), path)
    assert tables(path) == whole


def _cells(path):
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        count = connection.execute("SELECT COUNT(*) FROM cells").fetchone()[0]
        connection.close()
    except sqlite3.Error:
        return 0
    return count


def test_a_study_with_other_settings_does_not_overwrite(tmp_path):
    path = study(small(), tmp_path / "s.sqlite")
    before = path.read_bytes()
    with pytest.raises(InputError, match="other settings"):
        study(small(steps=301), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"families": ["E9"]}, "family = 'E9'"),
        ({"arms": [4]}, "arms = 4"),
        ({"contexts": [3]}, "contexts = 3"),
        ({"arms": []}, "arms = "),
        ({"arms": [5, 5]}, "each may be given once"),
        ({"tuning_seeds": [0, 3]}, "they overlap evaluation_seeds [0, 6] (seeds 0 to 3 are in both)"),
        ({"tuning_seeds": [6, 6]}, "seeds 6 to 6 are in both"),
        ({"tuning_seeds": [9, 7]}, "the last not before it"),
        ({"agents": ["npg learning_rate=1 age=1", "npg learning_rate=2 age=1"]}, "two agents have this label"),
        ({"agents": ["what"]}, "there is no such agent"),
        ({"agents": ["npg learning_rate=1,-1 age=1"]}, "learning_rate = -1"),
        ({"evaluation_seeds": [2**63, 2**63 + 9]}, "a seed must be below 2^63"),
        ({"evaluation_seeds": [1000, 10**12]}, "there may be at most 1,000,000 seeds"),
        ({"steps": 0}, "steps"),
    ],
)
def test_a_bad_recipe_is_one_line(change, words):
    with pytest.raises(InputError) as error:
        small(**change)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "trials"), [("bandit-small", 16 * (125 * 30 + 400)), ("bandit-large", 64 * (124 * 30 + 400))]
)
def test_the_recipes_are_the_papers_study(recipe, trials):
    settings = config.load(StudyConfig, config.find_recipe(recipe))
    assert settings.trials() == trials
    assert settings.steps == 30_000
    assert settings.evaluation_seeds == (0, 99)
    assert settings.tuning_seeds == (900, 929)


def test_the_default_is_the_small_study():
    assert config.load(StudyConfig, config.find_recipe("bandit-small")) == StudyConfig()
