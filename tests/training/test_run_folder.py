"""A run folder is continued by the same run alone, whoever trains in it."""

from dataclasses import replace

import pytest

from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.training.recipe import Recipe
from rewardrate.training.run_folder import ENGINE, about, open_run


@pytest.fixture
def recipe():
    return config.load(Recipe, config.find_recipe("laptop"), ["batch=6"])


def test_a_new_folder_says_what_will_run_in_it_and_is_opened_again(recipe, tmp_path):
    setup, facts = recipe.setup(), {ENGINE: "verl", "policy": "a/model"}
    for _ in range(2):
        with open_run(recipe, setup, tmp_path / "run", facts=facts) as log:
            assert log.about() == about(recipe, setup) | facts | {"started": log.about()["started"]}
    kept = config.read_toml(tmp_path / "run" / "config.toml")
    assert config.build(Recipe, kept) == recipe


@pytest.mark.parametrize(
    ("change", "engine", "words"),
    [
        ({"batch": 8}, "verl", "batch = 8: the run in .* was begun with 6; .* or another data.run"),
        ({"task": "digits8x8"}, "verl", "task = 'digits8x8': the run in .* was begun with 'diamonds'"),
        ({}, "", "engine = 'rewardrate train': the run in .* was begun by verl; use another data.run"),
    ],
)
def test_another_recipe_or_engine_is_refused_and_the_folder_is_free_again(recipe, tmp_path, change, engine, words):
    open_run(recipe, recipe.setup(), tmp_path / "run", facts={ENGINE: "verl"}).close()
    other = replace(recipe, **change)
    facts = {ENGINE: engine} if engine else {}
    with pytest.raises(InputError, match=words):
        open_run(other, other.setup(), tmp_path / "run", facts=facts, another="another data.run")
    RunLog.open(tmp_path / "run").close()
