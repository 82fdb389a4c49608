"""rewardrate tasks, and docs/add-a-task.md followed word for word."""

import json
import re
import shlex
from pathlib import Path

import pytest

from rewardrate.cli.main import main
from rewardrate.sandbox.runner import isolation

PAGE = Path(__file__).parents[2] / "docs" / "add-a-task.md"
boxed = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


def follow(folder):
    """Write every file that the page shows; the commands of its first shell block."""
    text = PAGE.read_text()
    files = re.findall(r"^`(tumours/[\w./]+)`\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return re.search(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1].splitlines()


@boxed
def test_the_page_on_adding_a_task_works_word_for_word(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    commands = follow(tmp_path)
    assert len(commands) == 5
    printed = {}
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "rewardrate"
        assert main(arguments) == 0, command
        printed[command] = capsys.readouterr().out
    assert (tmp_path / "tumours" / "leaderboard.csv").read_text().splitlines()[1].split(",")[4] == "02_logistic"
    checked = printed["rewardrate tasks validate ./tumours"]
    assert "0 failed" in checked
    assert "reproduced: 02_logistic" in checked
    ran = printed["rewardrate tasks run ./tumours tumours/reference/02_logistic.py"]
    assert ran.startswith("ok: score 0.99")
    assert "reward 1.0" in ran
    assert "id,benign" in printed["rewardrate tasks show ./tumours --prompt"]
    train, report = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1].splitlines()
    short = ["--set", "batch=2", "--set", "budget.steps=1", "--set", "budget.wall_seconds=500"]
    assert main([*shlex.split(train)[1:], *short]) == 0
    assert main(shlex.split(report)[1:]) == 0
    assert "tumours" in (tmp_path / "runs" / "tumours" / "report.html").read_text()


def test_list_shows_every_shipped_task(capsys):
    assert main(["tasks", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) >= 10
    assert {"id", "metric", "direction", "prepared", "licence"} <= set(rows[0])
    assert main(["tasks", "list"]) == 0
    assert "diamonds" in capsys.readouterr().out


def test_prepare_makes_data_once_and_show_reads_them(capsys, tmp_path):
    data = ["--data", str(tmp_path)]
    assert main(["tasks", "prepare", "digits8x8", *data]) == 0
    assert capsys.readouterr().out.startswith("digits8x8: made, ")
    assert main(["tasks", "prepare", "digits8x8", "--json", *data]) == 0
    assert json.loads(capsys.readouterr().out)["digits8x8"]["made"] is False
    assert main(["tasks", "show", "digits8x8", *data]) == 0
    out = capsys.readouterr().out
    assert "reference script" in out
    assert "licence: " in out
    assert main(["tasks", "show", "digits8x8", "--prompt", "compact", "--json", *data]) == 0
    assert json.loads(capsys.readouterr().out)[0]["content"].startswith("# task: digits8x8")
    assert main(["tasks", "show", "digits8x8", "--json", *data]) == 0
    assert json.loads(capsys.readouterr().out)["leaderboard"][0]["seconds"] > 0
    assert main(["tasks", "validate", "digits8x8", "--quick", "--json", *data]) == 0
    assert all(check["passed"] for check in json.loads(capsys.readouterr().out)["digits8x8"])


@boxed
def test_run_prints_the_outcome_and_an_invalid_script_is_exit_code_1(capsys, tmp_path):
    data = ["--data", str(tmp_path)]
    main(["tasks", "prepare", "digits8x8", *data])
    script = tmp_path / "script.py"
    script.write_text("print('looking')\nimport nothing_there\n")
    assert main(["tasks", "run", "digits8x8", str(script), "--set", "cores=1", *data]) == 1
    out, err = capsys.readouterr()
    assert "error: ModuleNotFoundError at line 2 (`import nothing_there`)" in out
    assert "looking" in err
    assert main(["tasks", "run", "digits8x8", str(script), "--set", "cores=1", "--json", *data]) == 1
    assert json.loads(capsys.readouterr().out)["status"] == "error"


def test_doctor_names_what_is_missing_for_each_lite_task(capsys):
    assert main(["tasks", "doctor", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 22
    assert main(["tasks", "doctor"]) == 0
    out = capsys.readouterr().out
    assert "spooky-author-identification" in out
    assert out.split()[:3] == ["task", "missing", "note"]


def changed(folder, file, old, new):
    """The page's task with one file changed."""
    follow(folder)
    path = folder / "tumours" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return str(folder / "tumours")


ENDS = ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise KeyboardInterrupt"]


@pytest.mark.parametrize("does", ENDS)
def test_a_prepare_that_ends_the_process_is_an_error_and_the_next_task_is_prepared(tmp_path, capsys, does):
    bad = changed(tmp_path, "prepare.py", "    cells =", f"    {does}\n    cells =")
    data = ["--data", str(tmp_path / "data")]
    assert main(["tasks", "prepare", bad, "digits8x8", *data]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("digits8x8: made")
    assert f"error: {bad}: prepare.py" in err
    assert main(["tasks", "prepare", bad, "digits8x8", "--json", *data]) == 2
    rows = json.loads(capsys.readouterr().out)
    assert "before the data were made" in rows[bad]["error"]
    assert rows["digits8x8"]["made"] is False


@pytest.mark.parametrize("does", ENDS)
def test_a_grader_that_ends_the_process_is_an_error_and_the_next_task_is_validated(tmp_path, capsys, does):
    bad = changed(tmp_path, "grade.py", "    return", f"    {does}\n    return")
    assert main(["tasks", "validate", bad, "digits8x8", "--quick", "--data", str(tmp_path / "data")]) == 2
    out, err = capsys.readouterr()
    assert "digits8x8" in out
    assert "0 failed" in out
    assert "tumours" in err
    assert "on the sample submission it" in err


def test_validate_finds_a_direction_the_wrong_way_round(tmp_path, capsys):
    bad = changed(tmp_path, "config.yaml", "direction: maximize", "direction: minimize")
    assert main(["tasks", "validate", bad, "--quick", "--data", str(tmp_path / "data")]) == 1
    assert "FAILED the true answers beat the sample submission (reward)" in capsys.readouterr().out


def test_validate_finds_a_column_that_is_the_answer(tmp_path, capsys):
    leak = "    test['code'] = test['benign'] * 3 + 1\n    write_splits("
    bad = changed(tmp_path, "prepare.py", "    write_splits(", leak)
    assert main(["tasks", "validate", bad, "--quick", "--data", str(tmp_path / "data")]) == 1
    assert "FAILED no column gives benign away: test.csv: code explains 100.0% of it" in capsys.readouterr().out


@boxed
def test_measure_leaves_no_leaderboard_of_a_task_that_is_the_wrong_way_round(tmp_path, capsys):
    bad = changed(tmp_path, "config.yaml", "direction: maximize", "direction: minimize")
    assert main(["tasks", "validate", bad, "--measure", "--set", "cores=1", "--data", str(tmp_path / "data")]) == 1
    assert "FAILED leaderboard.csv is written: not before every other check passes" in capsys.readouterr().out
    assert list(Path(bad).glob("leaderboard*")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prepare", "mlebench:spooky-author-identification"], "mlebench prepare -c spooky-author-identification"),
        (["show", "diamond"], "did you mean 'diamonds'"),
        (["show", "./nowhere"], "no config.yaml in that folder"),
        (["run", "digits8x8", "none.py"], "cannot be read as text"),
        (["run", "digits8x8", "{script}", "--data", "{empty}"], "rewardrate tasks prepare digits8x8"),
        (["run", "digits8x8", "{script}", "--set", "reward=profit"], "reward"),
        (["run", "digits8x8", "{script}", "--clock", "sun"], "sun"),
        (["validate", "digits8x8", "--quick", "--measure"], "not allowed with"),
        (["show", "mlebench:spooky-author-identification"], "mlebench"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, tmp_path, arguments, words):
    (tmp_path / "script.py").write_text("pass\n")
    filled = [word.format(script=tmp_path / "script.py", empty=tmp_path) for word in arguments]
    assert main(["tasks", *filled]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) == 1
