"""rewardrate train, with a chat endpoint on loopback as the policy."""

import json

import pytest

import toy_agent
from rewardrate import config
from rewardrate.attempt import Outcome, Proposal
from rewardrate.cli.main import main
from rewardrate.errors import InputError
from rewardrate.runlog import Origin
from rewardrate.sandbox.runner import isolation
from rewardrate.training.recipe import Recipe


def test_a_dry_run_prints_every_setting_with_its_meaning(capsys):
    assert main(["train", "laptop", "--dry-run", "--set", "task=diamonds", "--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert 'task = "diamonds"' in out
    assert "seed = 7" in out
    assert "# Which percentile of the predicted rates is charged." in out


def test_a_dry_run_shows_the_arm_that_was_asked_for(capsys):
    for arm, price, objective in (
        ("horizon", "horizon", "rpg"),
        ("rpg", "rate", "rpg"),
        ("vanilla", "rate", "vanilla"),
    ):
        assert main(["train", "laptop", "--dry-run", "--arm", arm]) == 0
        out = capsys.readouterr().out
        assert f'price = "{price}"' in out
        assert f'arm = "{objective}"' in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lapptop"], "did you mean 'laptop'"),
        (["laptop", "--arm", "none"], "none"),
        (["laptop", "--set", "task=diamond"], "did you mean 'diamonds'"),
        (["laptop", "--set", "policy.learner.clipp=1"], "did you mean 'clip'"),
        (["laptop", "--set", "policy.name=weights.bin"], "pickled weights"),
        (["laptop", "--set", "budget.steps=0"], "budget.steps"),
        (["laptop", "--set", "environment.time_limit=0"], "environment.time_limit"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, tmp_path, arguments, words):
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.skipif(not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces")
def test_both_arms_are_trained_shown_and_summed_up(capsys, tmp_path, monkeypatch, chat):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text(
        f"""
task = "digits8x8"
batch = 4
[budget]
steps = 2
[policy]
kind = "endpoint"
url = "{chat}"
model = "chatty"
[environment]
cores = 1
reward = "raw"
memory_bytes = 1000000000
"""
    )
    call = ["train", str(tmp_path / "mine.toml"), "--arm", "both", "--out", str(tmp_path / "runs")]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert err.count("step   2  valid") == 2
    assert out.startswith("Reward per second: rpg ")
    assert "\nReward at equal time (T = " in out
    assert f"next: rewardrate report {tmp_path / 'runs'}" in out
    assert main([*call, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert all(name.isidentifier() for name in again["rpg"])
    assert again["rpg"]["attempts"] == again["vanilla"]["attempts"] == 8, "a finished run is not run again"


def test_an_endpoint_that_is_not_there_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text(
        'task = "digits8x8"\nbatch = 2\n[policy]\nkind = "endpoint"\n'
        'url = "http://127.0.0.1:9/v1"\nmodel = "m"\nretries = 0\n'
    )
    assert main(["train", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run")]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("rewardrate: error: ")
    assert "the same command resumes" in last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["laptop", "--set", "task=diamond"], "did you mean 'diamonds'"),
        (["nanogpt-mini", "--set", "task=nanogpt-mimi"], "did you mean 'nanogpt-mini'"),
        (["sql-tuning", "--set", "task=flihgts"], "did you mean 'flights'"),
        (["mle-bench-paper", "--set", "task=mlebench:spooky-author"], "spooky-author-identification"),
        (["laptop", "--set", 'loggers=["tensorbord"]'], "did you mean 'tensorboard'"),
    ],
)
def test_a_dry_run_finds_what_the_run_would_not(capsys, arguments, words):
    assert main(["train", *arguments, "--dry-run"]) == 2
    assert words in capsys.readouterr().err


def test_a_dry_run_names_a_logger_that_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["train", "laptop", "--dry-run", "--set", 'loggers=["wandb"]']) == 0
    out, err = capsys.readouterr()
    assert err.startswith("note: the logger wandb needs wandb, which is not installed; add it with")
    assert 'loggers = ["wandb"]' in out


def test_a_dry_run_notes_a_gpu_that_is_not_here(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main(["train", "gpu", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("note: policy.device = 'cuda': no NVIDIA GPU is usable here; ")
    assert 'device = "cuda"' in out


@pytest.mark.parametrize("name", ["gpu", "mle-bench-paper", "nanogpt-paper"])
def test_a_recipe_for_a_gpu_says_so_before_it_asks_anyone_for_a_model(name):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    recipe = config.load(Recipe, config.find_recipe(name))
    with pytest.raises(InputError, match=r"device = 'cuda': no NVIDIA GPU is usable here; .*recipe laptop"):
        recipe.policy.make(recipe.seed)


def test_an_interrupted_run_says_what_is_saved_and_that_it_resumes(capsys, tmp_path, monkeypatch):
    def interrupted(recipe, folder, **told):
        loop = toy_agent.loop(folder, steps=2, batch=4)
        loop.run()
        loop.log.begin_step(3, [Proposal("x"), Proposal("y")], [Origin([]), Origin([])])
        loop.log.outcome(3, 0, Outcome(True, 1.0, 1.0, 2.0, "fine", "ok", "pass"))
        loop.log.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("rewardrate.training.session.train", interrupted)
    assert main(["train", "laptop", "--arm", "both", "--out", str(tmp_path)]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "Interrupted. 9 attempts saved; the same command resumes."
