"""Settings of a policy cost no torch: what only reads a recipe, or asks an endpoint, begins at once."""

import subprocess
import sys

import pytest

from rewardrate import config
from rewardrate.policies import settings
from rewardrate.training.recipe import Recipe


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


READ = """
import sys
from rewardrate import config
from rewardrate.training import comparison, forecast, session, sitting
from rewardrate.training.recipe import Recipe
recipe = config.load(Recipe, config.find_recipe("sql-tuning"))
policy = recipe.make_policy()
for kind in ("ppo", "grpo", "rloo"):
    learner = ["policy.kind=model", f"policy.learner.algorithm.kind={kind}", "batch=16"]
    assert config.load(Recipe, config.find_recipe("laptop"), learner).policy.learner.algorithm.kind == kind
print(policy.name, sorted({"torch", "transformers"} & set(sys.modules)))
"""


def test_a_recipe_is_read_and_a_frozen_policy_is_made_without_torch():
    done = python(READ)
    assert done.stdout == "qwen2.5-coder:7b []\n", done.stderr


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_where_a_model_cannot_be_loaded_one_line_says_what_to_install(missing):
    block = f"import sys; sys.modules[{missing!r}] = None\n"
    done = python(block + "from rewardrate.policies import LanguageModelPolicy")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"rewardrate.errors.MissingExtra: a language model in this process needs {missing}")
    assert "rewardrate[agent]" in last


def test_settings_of_a_recipe_are_these():
    policy = config.load(Recipe, config.find_recipe("laptop")).policy
    assert type(policy.learner) is settings.LearnerSettings
    assert type(policy.sampling) is settings.SamplingSettings
    assert all(folder.is_dir() for folder in settings.SHIPPED.values())
