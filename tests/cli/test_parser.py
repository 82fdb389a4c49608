"""The parser: InputErrors instead of exits, and the shared flags."""

import argparse
import tomllib
from pathlib import Path

import pytest

from rewardrate.cli.main import main
from rewardrate.cli.parser import RECIPE_COMMANDS, Command, Parser, overrides_of, run_verb
from rewardrate.errors import InputError


def arguments(parser):
    parser.add_argument("--size", type=float)
    parser.add_argument("--color", choices=["red", "blue"])
    parser.flag_set("a=1")
    parser.flag_json()
    parser.flag_dry_run()


COMMAND = Command("do it", "examples:\n  do it", arguments, lambda args: 7 if args.json else 3)


def test_a_verb_without_a_command_says_which_there_are(capsys):
    assert run_verb("thing", "about things", {"do": COMMAND}, []) == 0
    assert "do it" in capsys.readouterr().out


def test_a_command_runs_with_its_arguments():
    assert run_verb("thing", "about things", {"do": COMMAND}, ["do", "--json"]) == 7
    assert run_verb("thing", "about things", {"do": COMMAND}, ["do"]) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "big"], "--size = 'big': it must be a number"),
        (["--color", "green"], "invalid choice"),
        (["--sise", "3"], "did you mean '--size'"),
        (["loose"], "see rewardrate thing --help"),
        (["--siz=3"], "did you mean '--size'"),
    ],
)
def test_mistakes_are_input_errors(words, message):
    with pytest.raises(InputError) as error:
        Parser("rewardrate thing", COMMAND).parse(words)
    assert message in str(error.value)


def test_short_hand_flags_win_over_set():
    args = argparse.Namespace(overrides=["seed=1"])
    assert overrides_of(args, seed=2, instances=None) == ["seed=1", "seed=2"]


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (["train", "bandit-small"], "rewardrate bandit study bandit-small"),
        (["train", "theory-check"], "rewardrate theory check theory-check"),
        (["train", "pretrain-tiny"], "rewardrate pretrain pretrain-tiny"),
        (["bandit", "study", "laptop"], "rewardrate train laptop"),
        (["theory", "check", "laptop"], "rewardrate train laptop"),
        (["pretrain", "bandit-quick"], "rewardrate bandit study bandit-quick"),
    ],
)
def test_a_recipe_of_another_command_is_refused_with_that_command(capsys, call, remedy):
    assert main(call) == 2
    assert capsys.readouterr().err.endswith(f"it is a recipe of another command; {remedy}\n")


def test_every_recipe_of_the_project_says_whose_it_is():
    folder = Path(__file__).parents[2] / "recipes"
    tables = {path.stem: tomllib.loads(path.read_text()) for path in folder.glob("*.toml")}
    known = {name: [RECIPE_COMMANDS[key] for key in table if key in RECIPE_COMMANDS] for name, table in tables.items()}
    assert {name for name, commands in known.items() if len(commands) != 1} == {"mle-bench-lite"}, "a table of tasks"
