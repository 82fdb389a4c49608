"""A whole run with real parts: a chat endpoint on loopback, the sandbox, a task, the run log, the page."""

from dataclasses import replace

import pytest

import chat_server
from rewardrate.environments.mle.environment import Settings
from rewardrate.errors import InputError
from rewardrate.reports import page
from rewardrate.runlog import RunLog
from rewardrate.sandbox.runner import isolation
from rewardrate.training.loop import Budget
from rewardrate.training.recipe import EndpointChoice, Recipe, Slots
from rewardrate.training.session import train

pytestmark = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


@pytest.fixture
def recipe(chat, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Recipe(
        task="digits8x8",
        batch=6,
        budget=Budget(steps=2),
        policy=EndpointChoice(url=chat, model="chatty", parallel=1),
        environment=Settings(cores=1, reward="raw", memory_bytes=2**30),
        sandbox=Slots(repeats=0),
        checkpoint_every=1,
    )


def test_a_frozen_model_behind_an_endpoint_runs_the_whole_loop_and_can_go_on(recipe, tmp_path):
    steps = []
    train(recipe, tmp_path / "run", on_step=steps.append)
    assert [step.step for step in steps] == [1, 2]
    statuses = {outcome.status for step in steps for outcome in step.outcomes}
    assert {"ok", "format"} <= statuses
    assert "A guess" not in steps[0].outcomes[0].code
    prompts = [request["messages"][-1]["content"] for request in chat_server.Chat.asked]
    assert "previous solution is" not in prompts[0]
    assert "previous solution is" in prompts[-1]
    train(replace(recipe, budget=Budget(steps=3)), tmp_path / "run", on_step=steps.append)
    assert [step.step for step in steps] == [1, 2, 3]
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert len(log.attempts()) == 18
        assert log.about()["policy"] == "chatty"
        kinds = [event.kind for event in log.events()]
        assert kinds.count("resumed") == 1
        assert kinds.count("report") == 1, "the best script is graded on the report split, once"
    text = page.write(tmp_path / "run").read_text()
    assert "best script" in text
    assert "<script" not in text


def test_a_run_goes_on_only_under_its_own_recipe(recipe, tmp_path):
    train(replace(recipe, budget=Budget(steps=1)), tmp_path / "run")
    with pytest.raises(InputError, match=r"batch = 8: the run in .* was begun with 6"):
        train(replace(recipe, batch=8), tmp_path / "run")
    assert train(recipe, tmp_path / "run") == tmp_path / "run", "the lock was given back"


def test_a_recipe_that_cannot_be_had_leaves_no_folder_behind(recipe, tmp_path):
    with pytest.raises(InputError, match="being wrong"):
        train(replace(recipe, task="diamonds"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
