"""Mistakes are told in one line: field, value, what is allowed, remedy."""

import json
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rewardrate.errors import EXTRAS, InfrastructureError, InputError, MissingExtra, did_you_mean, missing_extra

ROOT = Path(__file__).parent.parent


def test_an_error_names_field_value_rule_and_remedy_in_one_line():
    error = InputError("seconds[3]", -1.0, "seconds must be positive", "drop the row")
    assert str(error) == "seconds[3] = -1.0: seconds must be positive; drop the row"
    assert isinstance(error, ValueError)


def test_a_long_or_multi_line_value_is_cut_to_one_line():
    text = str(InputError("text", "x\n" * 500, "it is too long"))
    assert "\n" not in text
    assert len(text) < 150


def test_an_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(InputError("p", 2, "too large", "shrink it")))
    assert (error.field, error.value, error.remedy) == ("p", 2, "shrink it")


def test_the_nearest_spelling_is_offered_and_otherwise_the_list():
    assert did_you_mean("instnaces", ["instances", "seed"]) == "did you mean 'instances'?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("zzz", []) == ""


def test_a_failure_outside_is_neither_a_mistake_nor_a_missing_part():
    error = InfrastructureError("api.example.org: status 500 (6 tries)")
    assert isinstance(error, RuntimeError)
    assert not isinstance(error, ValueError | ImportError)


def test_a_missing_extra_says_the_command_that_adds_it():
    assert "pip install 'rewardrate[agent]'" in str(MissingExtra("rates.Neural", "torch", "agent"))


@pytest.mark.parametrize(
    ("origin", "here"),
    [
        ({"url": "file://{folder}", "dir_info": {"editable": True}}, "(here: pip install -e '{folder}[agent]')"),
        ({"url": "file://{folder}", "dir_info": {}}, "(here: pip install '{folder}[agent]')"),
        ({"url": "file://{folder}/gone"}, "(rewardrate doctor prints the exact command)"),
        (None, "(rewardrate doctor prints the exact command)"),
    ],
)
def test_the_command_of_a_checkout_is_the_one_that_works_there(tmp_path, origin, here):
    """With a package of our name first on the path, as pip writes it."""
    info = tmp_path / "rewardrate-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: rewardrate\nVersion: 9\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin).replace("{folder}", str(tmp_path)))
    code = (
        "from rewardrate.errors import MissingExtra as M; print(M('it', 'torch', 'agent')); print(M('it', 'v', 'vllm'))"
    )
    path = f"{tmp_path}:{ROOT / 'src'}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    agent, engine = done.stdout.splitlines()
    assert agent.endswith(here.replace("{folder}", str(tmp_path)))
    assert engine.endswith("(rewardrate doctor prints the exact command)"), "it gets an environment of its own"


def test_every_module_that_an_extra_is_named_for_is_brought_by_that_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {"sklearn": "scikit-learn", "stable_baselines3": "stable-baselines3", "yaml": "pyyaml"}
    for module, extra in EXTRAS.items():
        brought = [re.match(r"[\w-]+", line)[0] for line in extras[extra]]
        assert names.get(module, module) in brought, module


def test_only_a_module_of_an_extra_is_told_as_one():
    assert missing_extra("plan", ModuleNotFoundError("no", name="transformers.utils")).extra == "agent"
    assert missing_extra("plan", ModuleNotFoundError("no", name="of_a_user")) is None
    assert missing_extra("plan", ModuleNotFoundError("no")) is None
