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


def test_a_kind_that_nobody_installed_is_refused_by_name():
    with pytest.raises(config.InputError, match="there is no such kind"):
        config.build(Recipe, {"task": "x", "environment": {"kind": "compression"}})
