"""rewardrate theory."""

import json
import sys

import pytest

from rewardrate.cli import theory
from rewardrate.cli.main import main
from rewardrate.theory import check
from rewardrate.theory.statements import Statement

PROBLEM = "reward = [[1.0, 0.8], [0.3, 0.9]]\nseconds = [[3.0, 1.0], [1.0, 2.0]]\n"


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text(PROBLEM)
    return path


def test_check_prints_the_table_writes_the_figure_and_says_how_to_repeat_it(capsys, tmp_path):
    assert (
        main(["theory", "check", "--instances", "12", "--seed", "3", "--set", "steps=10", "--out", str(tmp_path)]) == 0
    )
    out = capsys.readouterr().out
    assert "theorem 2, tail" in out
    assert "12 problems" in out
    assert ": 0 violations" in out
    assert (
        out.strip().splitlines()[-1]
        == f"again: rewardrate theory check --instances 12 --seed 3 --set steps=10 --out {tmp_path}"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"theory.json", "config.toml", "theory.svg", "theory.png"}
    assert json.loads((tmp_path / "theory.json").read_text())["violations"] == 0


def test_the_resolved_config_reads_back_as_a_recipe(capsys, tmp_path):
    assert main(["theory", "check", "theory-quick", "--instances", "2", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["theory", "check", str(tmp_path / "config.toml"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "# Random bandits, from the families in turn.\ninstances = 2\n" in out
    assert "contexts = 4\n" in out
    assert main(["theory", "check", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == 2000


def test_json_is_json_alone(capsys, tmp_path):
    assert main(["theory", "check", "--instances", "2", "--json", "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["statements"]) == 20


def test_a_violation_is_exit_code_1(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "STATEMENTS", (Statement("false", "1 < 0", "-", lambda case: -1.0),))
    assert main(["theory", "check", "--instances", "2", "--out", str(tmp_path)]) == 1
    assert "2 violations" in capsys.readouterr().out


def test_without_matplotlib_the_check_goes_on_and_says_what_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["theory", "check", "--instances", "2", "--out", str(tmp_path)]) == 0
    assert "rewardrate[report]" in capsys.readouterr().err


def test_an_out_that_cannot_be_made_is_refused_before_the_work(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["theory", "check", "--out", str(tmp_path / "file" / "folder")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_folder_in_the_way_is_refused_in_one_line(capsys, tmp_path):
    (tmp_path / "config.toml").mkdir()
    assert main(["theory", "check", "--instances", "100000", "--out", str(tmp_path)]) == 2
    assert "config.toml cannot be written there" in capsys.readouterr().err


def test_a_figure_that_cannot_be_written_is_said(capsys, tmp_path):
    (tmp_path / "theory.svg").mkdir()
    assert main(["theory", "check", "--instances", "1", "--out", str(tmp_path)]) == 0
    assert "no figure" in capsys.readouterr().err


def test_the_figure_opens_where_there_is_a_screen_and_is_named_where_there_is_none(capsys, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(theory.webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    main(["theory", "check", "--instances", "1", "--open", "--out", str(tmp_path)])
    assert opened == [(tmp_path / "theory.png").resolve().as_uri()]
    capsys.readouterr()
    monkeypatch.setattr(theory.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    main(["theory", "check", "--instances", "1", "--open", "--out", str(tmp_path)])
    assert "no screen here: look at" in capsys.readouterr().err


def test_solve_says_rate_policy_and_constants(capsys, problem):
    assert main(["theory", "solve", str(problem)]) == 0
    out = capsys.readouterr().out
    assert "0.566666666667" in out
    assert "policy        1, 1" in out
    assert "epsilon bar" in out


def test_solve_prints_json_too_with_negative_rewards_and_one_action(capsys, problem):
    assert main(["theory", "solve", str(problem), "--json", "--set", "p=[1.0, 0.0]"]) == 0
    assert json.loads(capsys.readouterr().out)["optimal_rate"] == pytest.approx(0.8)
    problem.write_text("reward = [[-1.0]]\nseconds = [[2.0]]\n")
    assert main(["theory", "solve", str(problem), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["optimal_rate"], result["margin"]) == (-0.5, None)
    assert "dinkelbach" not in result


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("reward = []\nseconds = []\n", "0 contexts"),
        ("reward = [[]]\nseconds = [[]]\n", "0 actions"),
        ("reward = [[1.0], [1.0, 2.0]]\nseconds = [[1.0], [1.0, 2.0]]\n", "table of numbers"),
        ("reward = [[1.0]]\nseconds = [[-1.0]]\n", "seconds[0, 0] = -1.0"),
        ("reward = [[nan]]\nseconds = [[1.0]]\n", "reward[0][0] = nan"),
        ("reward = [[1.0]]\nsecond = [[1.0]]\n", "did you mean 'seconds'"),
        ("reward = [[1.0]]\n", "seconds = None: it is required"),
        ("reward = [[1.0]]\nseconds = [[1.0]]\np = [0.5]\n", "sum to 0.5"),
        ("reward = [[1.0\n", "not valid TOML"),
    ],
)
def test_a_bad_problem_is_one_line_and_exit_code_2(capsys, problem, text, words):
    problem.write_text(text)
    assert main(["theory", "solve", str(problem)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_deadline_prints_the_table_writes_its_numbers_and_says_how_to_repeat_it(capsys, tmp_path):
    words = ["theory", "deadline", "--problems", "2", "--seed", "3", "--set", "plays=1", "--out", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "inertia, optimum" in out
    assert "rate x elasticity" in out
    assert out.strip().splitlines()[-1] == f"again: rewardrate {' '.join(words[:6])} --set plays=1 --out {tmp_path}"
    written = json.loads((tmp_path / "deadline.json").read_text())
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == written
    assert [one["family"] for one in written["families"]] == ["commit", "inertia", "free", "search"]
    assert main(["theory", "deadline", "--dry-run"]) == 0
    assert "problems = 250\n" in capsys.readouterr().out
    assert main(["theory", "deadline", "--problems", "1"]) == 2
    assert "problems = 1: it must be at least 2" in capsys.readouterr().err


def test_streams_prints_both_tables_writes_them_and_says_how_to_repeat_it(capsys, tmp_path):
    words = ["theory", "streams", "--runs", "2", "--set", "chains=[8]", "--set", "cost_runs=1", "--out", str(tmp_path)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "start order" in printed
    assert "again: rewardrate theory streams --runs 2 --seed 2026 --set 'chains=[8]'" in printed
    assert len((tmp_path / "bias.csv").read_text().splitlines()) == 1 + 3 * 9
    assert (tmp_path / "cost.csv").read_text().splitlines()[0].startswith("spread,chains,order,age,speed")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bias"][0]["chains"] == 8
    assert main(["theory", "streams", "--dry-run"]) == 0
    assert "cost_runs" in capsys.readouterr().out
    assert main(["theory", "streams", "--set", "chains=[1]"]) == 2
    assert "chains" in capsys.readouterr().err


def test_solve_says_what_each_number_means(capsys, problem):
    assert main(["theory", "solve", str(problem)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["quantity", "value", "meaning"]
    assert any(line.startswith("chi ") and line.endswith("1 - shortest / longest seconds") for line in lines)
    assert main(["theory", "solve", str(problem), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) <= set(theory.MEANINGS)
