"""docs/add-an-environment.md, word for word: a package outside the tree is installed, checked and trained with."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import chat_server
import installed_package
from rewardrate import config
from rewardrate.cli.main import main
from rewardrate.environments.contract import CHECKS, subject
from rewardrate.reports import page
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Pool
from rewardrate.sandbox.runner import isolation
from rewardrate.training.recipe import Recipe
from rewardrate.training.session import train

pytestmark = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)
TEXT = (Path(__file__).parents[2] / "docs" / "add-an-environment.md").read_text()


def block(kind, after=""):
    return re.search(rf"```{kind}\n(.*?)```", TEXT.partition(after)[2] if after else TEXT, re.DOTALL)[1]


@pytest.fixture
def _package(tmp_path, monkeypatch):
    ((group, named),) = tomllib.loads(block("toml"))["project"]["entry-points"].items()
    installed_package.add(tmp_path / "packages", monkeypatch, "compression", block("python"), {group: named})
    yield
    sys.modules.pop("compression", None)


@pytest.mark.usefixtures("_package")
def test_the_page_is_a_kind_that_keeps_the_contract_and_trains(chat, tmp_path, capsys):
    import compression

    with Pool(1, repeats=0) as pool:
        made = subject(compression.CompressionSettings, pool)
        for check in CHECKS:
            check(made)
    assert [one.valid for one in made.good] == [True]
    assert main(["environment", "list"]) == 0
    assert "compression:CompressionSettings" in capsys.readouterr().out
    (tmp_path / "compression.toml").write_text(block("toml", "## 4."))
    overrides = [f"policy.url={chat}", "policy.model=chatty", "policy.parallel=1", "sandbox.repeats=0"]
    chat_server.Chat.replies = ["I take zlib 1.", "bz2 0", "bz2 9 then", "gzip!", "lzma 6"]
    train(config.load(Recipe, tmp_path / "compression.toml", overrides), tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        attempts, about = log.attempts(), log.about()
    assert len(attempts) == 8
    assert about["metric"] == "share saved"
    assert {"ok", "error", "format"} == {attempt.status for attempt in attempts}
    best = max((attempt for attempt in attempts if attempt.valid), key=lambda attempt: attempt.reward)
    assert best.code in ("lzma 6", "bz2 9")
    assert "Its result: saved" in chat_server.Chat.asked[-1]["messages"][-1]["content"]
    assert "share saved" in page.write(tmp_path / "run").read_text()


OUTSIDE = f"""{installed_package.LETTERS}
from rewardrate.policies.algorithms import Algorithm, Loss, on_tokens
from rewardrate.rates import Totals
from rewardrate.rates.settings import EstimatorSettings


@dataclass(frozen=True)
class Reinforce(Algorithm):
    kind: Literal["reinforce"] = "reinforce"

    def advantages(self, batch):
        found = on_tokens(batch.rewards - batch.rewards.mean(), batch)
        return found, found

    def loss(self, batch, logprobs, values):
        return Loss(-batch.advantages * logprobs)


class Half(Totals):
    def absorb(self, reward, seconds):
        return super().absorb(reward / 2, seconds)


@dataclass(frozen=True)
class HalfSettings(EstimatorSettings):
    kind: Literal["half"] = "half"

    def make(self, seed):
        return Half()
"""
OUTSIDE_RECIPE = """
task = "any"
batch = 4
checkpoint_every = 1
budget = {steps = 2}
environment = {kind = "letters"}
estimator = {kind = "half"}

[policy]
kind = "model"
sampling = {new_tokens = 6}
learner = {learning_rate = 1e-4, algorithm = {kind = "reinforce"}}
"""


@pytest.mark.slow
def test_environment_algorithm_and_estimator_of_one_package_train_a_model_together(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="needs the agent extra")
    entries = {
        "rewardrate.environments": {"letters": "outside_letters:LettersSettings"},
        "rewardrate.algorithms": {"reinforce": "outside_letters:Reinforce"},
        "rewardrate.estimators": {"half": "outside_letters:HalfSettings"},
    }
    installed_package.add(tmp_path / "packages", monkeypatch, "outside_letters", OUTSIDE, entries)
    (tmp_path / "letters.toml").write_text(OUTSIDE_RECIPE)
    train(config.load(Recipe, tmp_path / "letters.toml"), tmp_path / "run")
    sys.modules.pop("outside_letters")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        rows, steps = list(log.attempts()), list(log.steps())
    assert len(rows) == 8
    assert all(row.valid for row in rows)
    total = sum(row.reward for row in rows[:4]) / sum(row.seconds for row in rows[:4])
    assert steps[0].rate.mean == pytest.approx(total / 2)
    for row in rows[:4]:
        assert row.relative_reward == pytest.approx(row.reward - total / 2 * row.seconds)
    for step in steps:
        assert step.metrics["grad_norm"] > 0
        assert "value_loss" not in step.metrics, "it needs no critic"
    weights = [
        (tmp_path / "run" / "checkpoints" / step.checkpoint / "policy.safetensors").read_bytes() for step in steps
    ]
    assert weights[0] != weights[1], "the second update moved the weights"


def test_a_kind_that_nobody_installed_is_refused_by_name():
    with pytest.raises(config.InputError, match="there is no such kind"):
        config.build(Recipe, {"task": "x", "environment": {"kind": "compression"}})
