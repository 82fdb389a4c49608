"""rewardrate plan."""

import json

import pytest

import made_run
from rewardrate import config
from rewardrate.cli.main import main
from rewardrate.training import forecast
from rewardrate.training.recipe import Recipe

QUICK = ["--set", "batch=8", "--set", "estimator.batches=50"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, value in {"agents": 4, "repetitions": 2}.items():
        monkeypatch.setitem(forecast.plan.__kwdefaults__, name, value)
    monkeypatch.setattr(forecast, "CANDIDATES", 40)


@pytest.fixture
def pilot(tmp_path):
    recipe = config.load(Recipe, config.find_recipe("deadline"), ["batch=8"]).with_arm("vanilla")
    return made_run.make(tmp_path / "run", arm="vanilla", steps=6, config=config.dumps(recipe), fast=True)


def test_a_task_gets_a_table_with_every_price_and_the_command_that_repeats_it(capsys):
    words = ["plan", "diamonds", "--budget", "12", "--valid-share", "0.3", *QUICK]
    assert main(words) == 0
    out = capsys.readouterr().out
    for price in ("none", "rate x 0.25", "rate x 0.5", "rate", "horizon"):
        assert f"\n{price} " in out
    assert "9 reference scripts, T = 12 s a chain, batch 8, limit 12 s" in out
    assert "80 % power" in out
    assert "warning: the model knows no code" in out
    again = out.splitlines()[-1].removeprefix("again: rewardrate ").split()
    assert main(again) == 0
    assert capsys.readouterr().out == out


def test_json_holds_the_same_and_a_run_is_a_pilot(capsys, pilot):
    assert main(["plan", str(pilot), "--budget", "8", "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["price"] for row in found["prices"]] == ["none", "rate x 0.25", "rate x 0.5", "rate", "horizon"]
    assert "scripts of the pilot" in found["scripts"]
    assert (found["budget"], found["batch"], found["seed"]) == (8.0, 8, 3)
    assert set(found["parameters"]) >= {"valid_share", "learning_steps", "difficulty"}


def test_a_dry_run_prints_the_settings_and_the_budget_comes_from_the_recipe(capsys):
    assert main(["plan", "grants", "--dry-run", *QUICK]) == 0
    assert 'task = "grants"' in capsys.readouterr().out
    assert main(["plan", "grants", "--recipe", "gpu"]) == 2
    assert "give --budget T" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["diamond"], "diamonds"),
        (["diamonds", "--budget", "0"], "budget"),
        (["diamonds", "--valid-share", "2"], "valid_share"),
        (["diamonds", "--learning-steps", "0"], "learning_steps"),
        (["diamonds", "--seed", "-1"], "seed"),
        (["diamonds", "--recipe", "deadlin"], "deadline"),
        (["diamonds", "--set", "batsh=8"], "batch"),
        (["PILOT", "--recipe", "deadline"], "a run has its own"),
        (["PILOT/checkpoints", "--budget", "9"], "neither a run folder"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(capsys, pilot, words, part):
    (pilot / "checkpoints").mkdir(exist_ok=True)
    assert main(["plan", *(word.replace("PILOT", str(pilot)) for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert part in captured.err.splitlines()[-1]


def test_a_run_can_be_planned_with_other_settings(capsys, pilot):
    assert main(["plan", str(pilot), "--budget", "8", "--set", "environment.time_limit=3"]) == 0
    assert "limit 3 s" in capsys.readouterr().out
