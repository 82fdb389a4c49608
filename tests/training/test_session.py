"""A whole run with real parts: a chat endpoint on loopback, the sandbox, a task, the run log, the page."""

from collections import Counter
from dataclasses import replace

import pytest

import chat_server
from rewardrate.environments.mle.environment import Settings
from rewardrate.errors import InfrastructureError, InputError
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
        events = log.events()
        assert [event.kind for event in events].count("resumed") == 1
        best = [event.message.partition(":")[0] for event in events if event.kind == "report"]
        assert len(set(best)) == len(best), "a best script is graded on the report split, once"
        valid = [attempt for attempt in log.attempts() if attempt.valid]
        assert best[-1] == f"attempt {max(valid, key=lambda one: (one.reward, -one.seconds)).id}"
    text = page.write(tmp_path / "run").read_text()
    assert "best script" in text


def test_an_endpoint_that_dies_in_the_middle_of_a_step_is_not_asked_again_for_what_it_answered(recipe, tmp_path):
    """Requests 1 to 6 are step 1; of step 2 rows 0 and 2 are answered, row 1 is refused, then the endpoint is gone."""
    chat, run = chat_server.Chat, tmp_path / "run"
    chat.statuses = {8: 400} | dict.fromkeys(range(10, 30), 503)
    frail = replace(recipe, policy=replace(recipe.policy, retries=1, first_wait_seconds=0.01))
    with pytest.raises(InfrastructureError, match=r"status 503 \(2 tries\)"):
        train(frail, run)
    assert (len(chat.asked), len(chat.answered)) == (11, 8)
    with RunLog.open(run, read_only=True) as log:
        assert log.last_step() == 1
        assert log.pending() == ()
    assert len((run / "replies.jsonl").read_text().splitlines()) == 3
    chat.statuses = {}
    train(frail, run)
    seeds = Counter(request["seed"] for request in chat.answered)
    assert set(seeds.values()) == {1}, "every reply was asked for once"
    assert len(seeds) == 11
    with RunLog.open(run, read_only=True) as log:
        assert log.last_step() == 2
        second = log.attempts(2)
    assert (second[1].status, second[1].relative_reward) == ("format", pytest.approx(second[1].relative_reward))
    assert second[1].relative_reward <= -10, "a refused prompt is charged like any failure"
    assert second[1].reply == '[no reply: status 400: {"error": {"message": "request 8 is not liked"}}]'
    assert all(attempt.reply and "no reply" not in attempt.reply for attempt in second if attempt.row != 1)
    assert not (run / "replies.jsonl").exists(), "a finished run has them all on record"


def test_a_key_that_is_refused_ends_the_run_and_nothing_is_charged(recipe, tmp_path):
    chat_server.Chat.down = 401
    with pytest.raises(InfrastructureError, match="status 401"):
        train(recipe, tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert log.last_step() == 0
    chat_server.Chat.down = None
    train(recipe, tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert len(log.attempts()) == 12


def test_a_run_goes_on_only_under_its_own_recipe(recipe, tmp_path):
    train(replace(recipe, budget=Budget(steps=1)), tmp_path / "run")
    with pytest.raises(InputError, match=r"batch = 8: the run in .* was begun with 6"):
        train(replace(recipe, batch=8), tmp_path / "run")
    assert train(recipe, tmp_path / "run") == tmp_path / "run", "the lock was given back"
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    train(replace(recipe, loggers=("tensorboard",)), tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").iterdir()), "a logger may come later"


def test_a_recipe_that_cannot_be_had_leaves_no_folder_behind(recipe, tmp_path):
    with pytest.raises(InputError, match="being wrong"):
        train(replace(recipe, task="diamonds"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
