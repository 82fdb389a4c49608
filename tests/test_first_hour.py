"""What README and tutorial tell a newcomer to type, typed in an empty folder; what takes minutes is shortened."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rewardrate.cli.main import VERBS, main
from rewardrate.errors import EXTRAS
from rewardrate.sandbox.runner import isolation

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TUTORIAL = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
SHORT = "--set task=digits8x8 --set batch=2 --set budget.steps=1 --set budget.wall_seconds=500"
boxed = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def typed(page):
    """Every command of ours on a page: lines of shell blocks, and those in backticks."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(rewardrate [^`]+)`", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S))
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("rewardrate ")]


def test_the_readme_stays_short_and_names_the_paper_in_its_first_screen():
    lines = README.read_text().splitlines()
    assert len(lines) <= 120
    assert "Reward-rate Policy Gradient for Efficient Machine Learning Engineering Agents" in "\n".join(lines[:25])


@pytest.mark.parametrize("page", [README, *TUTORIAL], ids=lambda path: path.name)
def test_the_python_of_a_page_runs_from_top_to_bottom_in_an_empty_folder_and_prints_what_it_says(page, tmp_path):
    found = blocks(page, "python")
    if page.name.startswith("3-"):  # reads the runs that its commands made: played below
        return
    code = "\n".join(found)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    for output in blocks(page, "text"):
        assert output in done.stdout


@pytest.mark.parametrize("page", [README, TUTORIAL[0]], ids=lambda path: path.name)
def test_the_first_programs_need_no_extra(page, tmp_path):
    light = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)}))\n"  # as if none were installed
    code = light + "\n".join(blocks(page, "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_the_plan_that_the_tutorial_writes_is_one_that_can_be_run(tmp_path, monkeypatch, capsys):
    """`compare --dry-run > plan.toml`, then `compare plan.toml`, here without training."""
    monkeypatch.chdir(tmp_path)
    (page,) = [path for path in TUTORIAL if path.name.startswith("5-")]
    first, second = [shlex.split(line) for line in typed(page) if line.startswith("rewardrate compare")]
    place = first.index(">")
    assert main(first[1:place]) == 0
    (tmp_path / first[place + 1]).write_text(capsys.readouterr().out)
    assert main([*second[1:], "--dry-run"]) == 0
    assert "SHA-256" in capsys.readouterr().out


@pytest.mark.parametrize("page", [README, *TUTORIAL], ids=lambda path: path.name)
def test_every_command_of_a_page_is_known_with_its_settings(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"^```toml\n# ([\w-]+\.toml)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(text)
    for command in typed(page):
        _, *words = shlex.split(command.replace("...", "digits8x8"))
        assert words[0] in ("--help", *VERBS), command
        dry = ["--dry-run"] if words[0] in ("train", "pretrain", "plan") and "--dry-run" not in words else []
        complete = len(words) > 1 and words[0] in ("train", "pretrain", "plan", "doctor")
        shown = [*words, *dry] if complete else [*words[:1], "--help"]
        if "TASK_OR_RUN" in words or "RECIPE" in words:
            continue
        try:
            assert main(shown) in (0, None), command
        except SystemExit as end:  # --help
            assert not end.code, command
        capsys.readouterr()


def test_make_knows_the_commands_of_the_readme():
    for command in [line for block in blocks(README, "sh") for line in block.splitlines() if line.startswith("make")]:
        target = shlex.split(command.partition("#")[0])
        done = subprocess.run([*target, "--dry-run"], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr


@boxed
def test_the_demo_of_the_readme_trains_both_arms_and_opens_a_page_that_python_reads(tmp_path):
    """`make demo QUICK=1` as make would run it, with a smaller task and one step."""
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo", "QUICK=1", f"OUT={tmp_path}/runs/demo"],
        capture_output=True, text=True, cwd=ROOT, check=True,
    ).stdout  # fmt: skip
    commands = [shlex.split(line) for line in planned.splitlines() if line.startswith(".venv/bin/rewardrate ")]
    assert [command[1] for command in commands] == ["train", "report"]
    commands[0] += shlex.split(SHORT)
    for _, *words in commands:
        done = subprocess.run(
            [sys.executable, "-m", "rewardrate", *words],
            capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"BROWSER": "true"}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs" / "demo" / "report.html").stat().st_size > 100_000
    (page,) = [path for path in TUTORIAL if path.name.startswith("3-")]
    code = "\n".join(blocks(page, "python"))
    read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert read.returncode == 0, read.stderr
    assert "seconds" in read.stdout
