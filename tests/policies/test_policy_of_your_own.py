"""Policies of a package outside the tree: training asks them what it asks ours, and knows none of them by type."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

import installed_package
from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.runlog.comparison import ComparisonPlan
from rewardrate.sandbox import cores
from rewardrate.training.comparison import check, recipes, settings_of
from rewardrate.training.recipe import Recipe
from rewardrate.training.session import REPLIES, train

TEXT = (Path(__file__).parents[2] / "docs" / "policies.md").read_text().partition("## A policy of your own")[2]
COOK = """
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from my_policy import Menu, MenuSettings
from rewardrate.errors import InputError

TOLD = []


class Cook(Menu):
    engine = "stove: there is no oven"

    def keep_replies(self, path):
        TOLD.append(("keep", path))
        path.write_text("paid for")

    def take_cores(self, usable):
        TOLD.append(("cores", usable))
        return 1


@dataclass(frozen=True)
class CookSettings(MenuSettings):
    kind: Literal["cook"] = "cook"
    book: str = "grandmother"
    weights = "book"
    attempts_per_prompt = 2

    @property
    def label(self):
        return f"cook by {self.book}"

    def for_stream(self):
        if self.step > 1:
            raise InputError("policy.step", self.step, "too hot for a stream")
        return replace(self, dishes=("abcd", "abcde"))

    def make(self, seed):
        return Cook(self.dishes, self.step)

    def check_weights(self, name):
        TOLD.append(("weights", name))
"""


@pytest.fixture(autouse=True)
def _packages(tmp_path, monkeypatch):
    entry, code = (re.search(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)[1] for kind in ("toml", "python"))
    ((group, named),) = tomllib.loads(entry)["project"]["entry-points"].items()
    packages = tmp_path / "packages"
    installed_package.add(packages, monkeypatch, "my_policy", code, {group: named})
    installed_package.add(packages, monkeypatch, "cook_policy", COOK, {group: {"cook": "cook_policy:CookSettings"}})
    letters = {"rewardrate.environments": {"letters": "letters_environment:LettersSettings"}}
    installed_package.add(packages, monkeypatch, "letters_environment", installed_package.LETTERS, letters)
    yield
    for name in ("my_policy", "cook_policy", "letters_environment"):
        sys.modules.pop(name, None)


def recipe(kind, **more):
    table = {"task": "any", "batch": 4, "budget": {"steps": 3}, "environment": {"kind": "letters"}}
    return config.build(Recipe, table | {"policy": {"kind": kind}, "checkpoint_every": 1} | more)


def test_the_documented_policy_learns_and_resumes_where_it_was(tmp_path):
    train(recipe("menu"), tmp_path / "run")
    train(recipe("menu", budget={"steps": 5}), tmp_path / "run")
    train(recipe("menu", budget={"steps": 5}), tmp_path / "whole")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        rows, steps, about = log.attempts(), log.steps(), log.about()
    with RunLog.open(tmp_path / "whole", read_only=True) as log:
        assert [row.code for row in log.attempts()] == [row.code for row in rows]
    assert about["policy"] == "menu"
    assert len(rows) == 20
    assert all(step.metrics["spread"] > 0 for step in steps)
    logits = json.loads((tmp_path / "run" / "checkpoints" / steps[-1].checkpoint / "logits.json").read_text())
    assert max(logits) > 0 > min(logits)


@pytest.mark.parametrize("schedule", ["step", "stream"])
def test_what_a_policy_says_of_itself_is_heeded(tmp_path, schedule):
    import cook_policy

    train(recipe("cook", schedule=schedule), tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        rows, events, about = log.attempts(), log.events(), log.about()
    assert about["policy"] == "cook by grandmother"
    assert [event.message for event in events if event.kind == "sampling"] == ["stove: there is no oven"]
    told = [("keep", tmp_path / "run" / REPLIES)]
    told += [("cores", len(cores.usable()))] if schedule == "stream" else []
    assert told == cook_policy.TOLD
    assert not (tmp_path / "run" / REPLIES).exists(), "all of them are on record"
    parents = [row.parent for row in rows]
    assert parents[4:8:2] == parents[5:8:2], "two attempts share a prompt"
    assert {len(row.code) for row in rows} <= ({4, 5} if schedule == "stream" else {1, 2, 3})


def test_settings_that_do_not_fit_are_refused_by_the_policys_own_words():
    hot = {"kind": "cook", "step": 2.0}
    assert recipe("cook", policy=hot).schedule == "step"
    with pytest.raises(InputError, match="too hot for a stream"):
        recipe("cook", policy=hot, schedule="stream")
    with pytest.raises(InputError, match="a multiple of 2, the policy's attempts at each prompt"):
        recipe("cook", batch=5)
    with pytest.raises(InputError, match=r"policy.kind = 'cok': .*did you mean 'cook'"):
        recipe("cok")
    with pytest.raises(InputError, match=r"policy.kind = None: it must be one of cook, endpoint, menu, model"):
        recipe("cook", policy={"step": 1.0})


def test_a_comparison_begins_the_runs_of_any_policy_that_has_weights(tmp_path):
    import cook_policy

    (tmp_path / "mine.toml").write_text(config.dumps(recipe("cook")))
    plan = {
        "hypothesis": "none",
        "recipe": str(tmp_path / "mine.toml"),
        "tasks": ["any"],
        "seeds": [0],
        "script_seconds": 9.0,
    }
    plain = config.build(ComparisonPlan, plan)
    assert settings_of(plain, recipes(plain)[""], tmp_path) == ('policy.book="grandmother"',)
    other = config.build(ComparisonPlan, plan | {"start": {"name": "aunt"}})
    assert settings_of(other, recipes(other)[""], tmp_path) == ('policy.book="aunt"',)
    check(recipes(other)[""], ["any"], 1, "aunt")
    assert cook_policy.TOLD == [("weights", "aunt")]
    without = config.build(ComparisonPlan, plan | {"settings": ["policy.kind=menu"]})
    assert settings_of(without, recipes(without)[""], tmp_path) == ()
    with pytest.raises(InputError, match="a policy of the kind menu begins with no weights"):
        recipes(config.build(ComparisonPlan, plan | {"settings": ["policy.kind=menu"], "start": {"name": "aunt"}}))
