"""rewardrate compare: the plan, its freezing, and what is printed; real runs are in tests/training/test_sitting.py."""

import io
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

import made_comparison
from rewardrate import config
from rewardrate.cli.compare import ProgressView
from rewardrate.cli.main import main
from rewardrate.cli.terminal import Live
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan
from rewardrate.training.sitting import SittingProgress


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One task, two seeds, both arms."""
    return made_comparison.complete(tmp_path_factory.mktemp("compare") / "study", tasks=("digits8x8",))


@pytest.fixture
def study(finished, tmp_path):
    """(plan file, folder) to work on."""
    shutil.copytree(finished.path, tmp_path / "study")
    (tmp_path / "plan.toml").write_text(config.dumps(finished.plan()))
    return str(tmp_path / "plan.toml"), ComparisonFolder(tmp_path / "study")


def test_without_a_plan_a_dry_run_prints_one_to_begin_with(capsys, tmp_path):
    assert main(["compare", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "# Stopping rule, in words." in text
    (tmp_path / "plan.toml").write_text(text)
    assert main(["compare", str(tmp_path / "plan.toml"), "--dry-run"]) == 0
    assert main(["compare"]) == 2
    assert "rewardrate compare --dry-run prints one" in capsys.readouterr().err


def test_a_dry_run_says_which_runs_how_long_and_the_digest_and_writes_nothing(study, capsys, tmp_path):
    plan, folder = study
    sha256 = folder.state()["sha256"]
    shutil.rmtree(folder.path)
    assert main(["compare", plan, "--dry-run", "--out", str(folder.path), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert config.build(ComparisonPlan, tomllib.loads(out)) == made_comparison.plan(tasks=("digits8x8",))
    assert sha256 in out
    assert "T = 20 s of script time for each of 6 chains" in out
    assert "4 runs in 2 blocks; 1 at once (slots of each: 1), about 8 min 19 s" in out  # 4 x 120 s x 1.45
    assert "digits8x8:1: rpg, vanilla" in out
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("name", "runs", "blocks"), [("plan", 72, 24), ("contrast", 36, 12), ("pilot", 8, 2), ("ablations", 42, 6)]
)
def test_the_plans_of_the_deadline_study_can_be_run(capsys, tmp_path, name, runs, blocks):
    plan = Path(__file__).parents[2] / "results" / "2026-11-18-deadline-study" / f"{name}.toml"
    assert main(["compare", str(plan), "--dry-run", "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert f"# {runs} runs in {blocks} blocks" in out
    assert "T = 72 s of script time for each of 16 chains" in out


def test_the_result_is_printed_and_written(study, capsys):
    plan, folder = study
    assert main(["compare", plan, "--only-report", "--out", str(folder.path)]) == 0
    out, err = capsys.readouterr()
    assert re.match(
        r"rpg less vanilla: [+-]0\.\d+ \(.*\) in reward at T, latest attempt, invalid = 0; mean over 1 task and 2", out
    )
    assert out.splitlines()[-1] == str(folder.path / "report.html")
    assert err == ""
    assert (folder.path / "figures" / "forest.svg").exists()
    assert (folder.path / "tables" / "pooled.tex").exists()


def test_where_nothing_is_left_to_train_the_same_command_gives_the_result(study, capsys):
    plan, folder = study
    assert main(["compare", plan, "digits8x8:0", "--jobs", "1", "--seconds", "60", "--out", str(folder.path)]) == 0
    out, err = capsys.readouterr()
    assert "rpg less vanilla" in out
    assert err == ""
    assert not list(folder.path.glob("*/*.log")), "no run was begun"


def test_an_unfinished_comparison_shows_how_far_it_is_and_differences_only_to_who_asks(study, capsys):
    plan, folder = study
    shutil.rmtree(folder.path / "digits8x8-s1")
    call = ["compare", plan, "--out", str(folder.path)]
    assert main([*call, "--only-report"]) == 0
    out = capsys.readouterr().out
    assert "rpg less vanilla" not in out
    assert out.endswith("1 of 2 blocks are complete; the same command resumes\n")
    assert main([*call, "--only-report", "--json"]) == 0
    assert "contrasts" not in json.loads(capsys.readouterr().out)
    assert main([*call, "--peek", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["complete"], len(found["runs"]), len(found["contrasts"])) == (False, 2, 1)
    assert found["page"] == str(folder.path / "report.html")


def test_a_changed_plan_is_refused_by_its_first_setting_or_accepted_and_told(study, capsys, tmp_path):
    _, folder = study
    shutil.rmtree(folder.path / "digits8x8-s1")
    other = made_comparison.plan(tasks=("digits8x8",), stop_after=2)
    (tmp_path / "other.toml").write_text(config.dumps(other))
    call = ["compare", str(tmp_path / "other.toml"), "--only-report", "--out", str(folder.path)]
    assert main(call) == 2
    assert "error: stop_after = 2: the plan in" in capsys.readouterr().err
    assert folder.plan().stop_after is None
    assert main([*call, "--accept-changes"]) == 0
    err = capsys.readouterr().err
    assert "deviation: the plan was changed on" in err
    assert "stop_after from None to 2" in err
    assert "digits8x8:0: rpg: run under another plan" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], "--jobs = 0: it must be above 0"),
        (["--seconds", "-1"], "--seconds = -1.0: it must be above 0"),
        (["--jobs", "1000"], "cores for"),
        (["--job", "1"], "did you mean '--jobs'"),
    ],
)
def test_mistakes_are_one_line_and_leave_the_folder_as_it_was(study, capsys, arguments, words):
    plan, folder = study
    assert main(["compare", plan, *arguments, "--out", str(folder.path)]) == 2
    assert words in capsys.readouterr().err
    new = ["--out", str(folder.path / "new")]
    assert main(["compare", plan, *arguments, *new]) == 2, "before the plan is frozen"
    typo = Path(plan).with_name("typo.toml")
    typo.write_text(Path(plan).read_text().replace('"digits8x8"', '"digits8x9"'))
    capsys.readouterr()
    assert main(["compare", str(typo), *new]) == 2
    assert "did you mean 'digits8x8'" in capsys.readouterr().err
    assert main(["compare", plan, "digits8x8:9", *new]) == 2
    assert "TASK:SEED" in capsys.readouterr().err
    assert not (folder.path / "new").exists()


def test_a_report_of_a_folder_without_a_comparison_is_refused_and_makes_none(study, capsys, tmp_path):
    plan, folder = study
    for flag in ("--only-report", "--peek"):
        assert main(["compare", plan, flag, "--out", str(tmp_path / "typo")]) == 2
        assert "there is no run of a comparison in it" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    merged = tmp_path / "merged"
    shutil.copytree(folder.path / "digits8x8-s0", merged / "digits8x8-s0")
    assert main(["compare", plan, "--only-report", "--out", str(merged)]) == 0, "blocks alone can be merged"


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_the_live_table_has_a_row_for_each_run_and_a_line_a_minute_elsewhere(monkeypatch):
    progress = SittingProgress(3, 24, (("diamonds:0 rpg", 0.5), ("grants:1 vanilla", 0.051)), 754.0)
    screen = Screen()
    ProgressView(Live(screen)).progress(progress)
    shown = screen.getvalue()
    assert "diamonds:0 rpg    [##########          ]  50%\n" in shown
    assert shown.endswith("3 of 24 blocks complete, 12 min 34 s left")
    plain = io.StringIO()
    view = ProgressView(Live(plain))
    view.progress(progress)
    assert plain.getvalue() == ""
    view.said -= 61
    view.progress(progress)
    assert plain.getvalue() == "3 of 24 blocks complete, 12 min 34 s left; diamonds:0 rpg 50%; grants:1 vanilla 5%\n"
