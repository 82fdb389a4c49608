"""rewardrate bandit."""

import json
from pathlib import Path

import pytest

from rewardrate.cli.main import main

RECIPE = """
families = ["E1"]
arms = [5]
agents = ["npg learning_rate=0.3,1 age=60,500", "cucb theory"]
steps = 200
marks = 8
tuning_seeds = [900, 902]
evaluation_seeds = [0, 4]
resamples = 50
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE)
    return str(path)


def test_demo_prints_a_table_draws_a_figure_and_says_how_to_repeat_it(capsys, tmp_path):
    out = tmp_path / "demo"
    words = ["bandit", "demo", "--seeds", "3", "--set", "steps=300", "--set", "arms=6", "--workers", "1"]
    assert main([*words, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    for agent in ("npg", "spg", "cucb", "cucb theory"):
        assert f"\n{agent} " in text
    assert "world E1, 6 arms and SKIP, 4 contexts: 12 trials of 300 steps" in text
    last = text.strip().splitlines()[-1]
    assert last == f"again: rewardrate bandit demo --seeds 3 --set steps=300 --set arms=6 --out {out}"
    assert {path.name for path in out.iterdir()} == {"experiment.json", "experiment.svg", "experiment.png"}


def test_run_takes_agents_in_words_and_prints_json_alone(capsys, tmp_path):
    agents = ["npg learning_rate=0.3 age=60", "npg learning_rate=0.3 age=60 estimator=totals as=totals"]
    words = ["bandit", "run", *agents, "--seeds", "2", "--seed", "7", "--set", "steps=100", "--set", "arms=5"]
    assert main([*words, "--workers", "1", "--json", "--out", str(tmp_path)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [agent["agent"] for agent in result["agents"]] == ["npg", "totals"]
    assert result["config"]["first_seed"] == 7
    assert result["optimal_rate"] == pytest.approx(0.70, abs=0.05)


def test_an_agent_in_the_current_folder_is_found_in_child_processes_too(capsys, tmp_path, monkeypatch):
    example = Path(__file__).parent.parent.parent / "examples" / "bandit_agent.py"
    (tmp_path / "my_agent.py").write_text(example.read_text())
    monkeypatch.chdir(tmp_path)
    words = [
        "bandit",
        "run",
        "my_agent:RateGreedy as=a",
        "my_agent:RateGreedy explore=0.2 as=b",
        "--seeds",
        "2",
        "--workers",
        "2",
    ]
    assert main([*words, "--set", "steps=50", "--json"]) == 0
    assert [agent["agent"] for agent in json.loads(capsys.readouterr().out)["agents"]] == ["a", "b"]


def test_study_runs_resumes_and_is_drawn(capsys, tmp_path, recipe):
    out = tmp_path / "out"
    assert main(["bandit", "study", recipe, "--out", str(out)]) == 0
    first = capsys.readouterr().out
    assert "| contexts | K | family | NPG-NIW | C-UCB, theory |" in first
    assert f"next: rewardrate bandit figures {out}" in first
    assert main(["bandit", "study", recipe, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 4 * 3 + 2 * 5
    assert main(["bandit", "figures", str(out)]) == 0
    assert (out / "figures" / "horizon-x4.svg").exists()
    assert main(["bandit", "figures", str(out / "study.sqlite"), "--out", str(tmp_path / "f"), "--json"]) == 0
    capsys.readouterr()


def test_dry_run_explains_and_reads_back(capsys, tmp_path, recipe):
    assert main(["bandit", "study", recipe, "--seed", "50", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "# Horizon T.\nsteps = 200\n" in text
    assert "evaluation_seeds = [50, 54]" in text
    again = tmp_path / "again.toml"
    again.write_text(text)
    assert main(["bandit", "study", str(again), "--dry-run"]) == 0
    assert capsys.readouterr().out == text
    assert main(["bandit", "demo", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arms"] == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--set", "family=E7"], "family = 'E7': there is no such family"),
        (["demo", "--set", "arms=4"], "arms = 4"),
        (["demo", "--set", "contexts=3"], "contexts = 3"),
        (["demo", "--workers", "0"], "--workers = 0"),
        (["run", "nqg learning_rate=1"], "did you mean 'npg'?"),
        (["run", "npg learning_rate=0.1,1 age=9"], "it is a grid of 2"),
        (["study", "bandit-smal"], "did you mean 'bandit-small'?"),
        (["study", "bandit-small", "--set", "tuning_seeds=[0, 9]"], "they overlap evaluation_seeds"),
        (["study", "bandit-small", "--set", "family=E1"], "did you mean 'families'?"),
        (["figures", "/nowhere/study.sqlite"], "there is no such file"),
        (["figure"], "did you mean 'figures'?"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["bandit", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("**/*.sqlite"))


def test_a_corrupt_results_file_is_refused_and_left_alone(capsys, tmp_path, recipe):
    path = tmp_path / "study.sqlite"
    path.write_bytes(b"garbage" * 500)
    assert main(["bandit", "study", recipe, "--out", str(tmp_path)]) == 2
    assert "damaged, or no study" in capsys.readouterr().err
    assert main(["bandit", "figures", str(path)]) == 2
    assert path.read_bytes() == b"garbage" * 500


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(capsys, tmp_path, recipe):
    (tmp_path / "file").write_text("")
    for words in (["demo"], ["study", recipe]):
        assert main(["bandit", *words, "--out", str(tmp_path / "file" / "x")]) == 2
        assert "--out" in capsys.readouterr().err
