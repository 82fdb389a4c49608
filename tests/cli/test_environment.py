"""rewardrate environment."""

import json
import sys

import pytest

import installed_package
from rewardrate.cli.main import main

CODE = """
from rewardrate.attempt import Outcome
from rewardrate.environments import Environment


class Numbers(Environment):
    limit_seconds = 5.0

    def prompt(self, parent=None):
        return [{"role": "user", "content": "a number"}]

    def stream(self, replies, parents=None):
        for index, reply in enumerate(replies):
            if reply.isdecimal():
                yield index, Outcome(True, float(reply), None, 0.2, "good", "ok", reply)
            else:
                yield index, Outcome(False, 0.0, None, SECONDS, "no number", "format", "")


def make():
    return Numbers(), ["4"]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "made_numbers.py").write_text(CODE.replace("SECONDS", "0.1"))
    (tmp_path / "made_hasty.py").write_text(CODE.replace("SECONDS", "0.0"))
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("made_numbers", "made_hasty"):
        sys.modules.pop(name, None)


def test_the_installed_kinds_are_listed_and_a_broken_package_hides_no_other(capsys, tmp_path, monkeypatch):
    entries = {"rewardrate.environments": {"broken": "made_nowhere:Settings"}}
    installed_package.add(tmp_path / "packages", monkeypatch, "made_broken", "", entries)
    assert main(["environment", "list", "--json"]) == 0
    found = {row["kind"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"mle", "speedrun", "sql-tuning"} <= set(found)
    assert found["sql-tuning"]["class"].endswith("sqltuning.environment:SqlTuningSettings")
    assert "cannot be imported" in found["broken"]["about"]
    assert main(["environment", "list"]) == 0
    assert "sql-tuning" in capsys.readouterr().out


@pytest.mark.usefixtures("module")
def test_an_environment_of_your_own_is_checked(capsys):
    assert main(["environment", "check", "made_numbers:make"]) == 0
    out = capsys.readouterr().out
    assert "stopping early leaves nothing running" in out
    assert "0 broken" in out
    assert main(["environment", "check", "made_hasty:make", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    broken = [row["check"] for row in found["results"] if not row["passed"]]
    assert broken == ["seconds_are_between_floor_and_limit"]
    assert found["failures"] == 1


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sql-tunning", "did you mean 'sql-tuning'"),
        ("made_nothing:make", "it cannot be imported (ModuleNotFoundError"),
        ("made_numbers:mark", "it cannot be imported (AttributeError"),
        ("made_numbers:Outcome", "environment = 'made_numbers:Outcome'"),
        ("json:loads", "environment = 'json:loads'"),
    ],
)
def test_a_name_that_cannot_be_checked_is_one_line(capsys, name, words):
    assert main(["environment", "check", name]) == 2
    err = capsys.readouterr().err.strip()
    assert words in err
