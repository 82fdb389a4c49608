"""A whole run with real parts: a chat endpoint on loopback, the sandbox, a task, the run log, the page."""

import random
import re
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import chat_server
import rewardrate
from rewardrate.environments.mle.environment import Settings
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.reports import page
from rewardrate.reports.run import read
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
    assert not list((tmp_path / "run").glob("run.sqlite-*")), "a closed run is one file"
    text = page.write(tmp_path / "run").read_text()
    assert "best script" in text


def test_the_documented_executor_of_your_own_runs_a_training_run(recipe, tmp_path, monkeypatch):
    """The entry point and the module of docs/ray.md, as an installed package would bring them."""
    text = (Path(__file__).parents[2] / "docs" / "ray.md").read_text().partition("## An executor of your own")[2]
    entry, code = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("toml", "python"))
    ((group, named),) = tomllib.loads(entry)["project"]["entry-points"].items()
    about = tmp_path / "packages" / "mine-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in named.items())
    (about / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    (tmp_path / "packages" / "my_executor.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    made = replace(recipe, sandbox=Slots(executor="mine", repeats=0))
    train(made, tmp_path / "run")
    import my_executor

    assert my_executor.Mine.__init__.__kwdefaults__.keys() == {"slots", "clock", "repeats"}
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert {"ok", "format"} <= {attempt.status for attempt in log.attempts()}
        assert len(log.attempts()) == 12


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


def test_chains_that_do_not_wait_run_scripts_of_an_endpoint_and_go_on_after_an_interrupt(recipe, tmp_path):
    """The pool, one open stream of jobs, threads, kept replies, the record and the page, as a user has them."""
    run, streams, told = tmp_path / "run", replace(recipe, schedule="stream", max_age=2, batch=4), []

    def interrupt(place, outcome):
        told.append(outcome)
        if len(told) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(streams, run, on_attempt=interrupt)
    train(streams, run, on_attempt=lambda place, outcome: told.append(outcome))
    seeds = Counter(request["seed"] for request in chat_server.Chat.answered)
    assert set(seeds.values()) == {1}, "every reply was asked for once"
    train(replace(streams, budget=Budget(steps=4)), run)
    with RunLog.open(run, read_only=True) as log:
        attempts, pending, steps = log.attempts(), log.pending(), log.steps()
    assert [one.id for one in attempts] == list(range(1, 17))
    assert max(one.step - 1 - one.updates for one in attempts) <= 2
    ends = [one.arrival for one in [*attempts, *pending] if one.arrival is not None]
    assert sorted(ends) == list(range(1, len(ends) + 1))
    assert {"ok", "format"} <= {one.status for one in attempts}
    assert all(step.metrics["age_max"] <= 2 for step in steps)
    idle = [step.metrics["idle_share"] for step in steps if "idle_share" in step.metrics]
    assert idle, "only a step of attempts that had all ended before its process began has none"
    assert all(0 <= share <= 1 for share in idle)
    assert not (run / "replies.jsonl").exists()
    with pytest.raises(InputError, match="was begun with"):
        train(replace(recipe, batch=4), run)


def test_an_endpoint_that_dies_where_chains_do_not_wait_is_not_asked_again_for_what_it_answered(recipe, tmp_path):
    chat, run = chat_server.Chat, tmp_path / "run"
    chat.statuses = dict.fromkeys(range(9, 30), 503)
    policy = replace(recipe.policy, retries=0, first_wait_seconds=0.01)
    frail = replace(recipe, schedule="stream", batch=4, budget=Budget(steps=3), policy=policy)
    with pytest.raises(InfrastructureError, match="status 503"):
        train(frail, run)
    chat.statuses = {}
    train(frail, run)
    assert set(Counter(request["seed"] for request in chat.answered).values()) == {1}
    with RunLog.open(run, read_only=True) as log:
        assert [one.id for one in log.attempts()] == list(range(1, 13))


POISON = [
    *(f"import os; os.kill(os.getpid(), {number})" for number in (*range(34, 65), 6, 9, 11, 19, 31)),
    *(f"import os; os._exit({code})" for code in (1, 77, 127, 128, 255)),
    "import os; os.mkfifo('submission.csv')",
    "import os; os.mkdir('submission.csv')",
    "import os; os.symlink('/etc/passwd', 'submission.csv')",
    "open('submission.csv', 'wb').write(bytes(range(256)) * 99)",
    "open('submission.csv', 'w').write('id,digit\\n' + 'nan,inf\\n' * 500)",
    "open('submission.csv', 'w').write('id' + ',digit' * 999)",
    "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stderr.buffer.write(b'\\xff\\xed\\xa0\\x80' * 99)",
    "raise type('\\ud800', (Exception,), {})('\\udfff\\0')",
    "x = '\ud800 \0 \ufffe'",
    "\0",
    "# -*- coding: \xff -*-",
    "import ctypes, os; ctypes.CDLL(None).prctl(15, b'\\xff'); os.fork(); raise SystemExit('\\x1b[2J')",
    "import os, signal; signal.signal(17, signal.SIG_IGN); os.fork() or os.abort(); os._exit(3)",
    "import os; os.fork(); os.kill(0, 50)",
    "import sys; sys.setrecursionlimit(10**9); f = lambda: f(); f()",
    "while True: print('x' * 10**6)",
]


def test_a_run_of_poisoned_attempts_ends_resumes_and_charges_every_one(recipe, tmp_path):
    chat_server.Chat.scripts = random.Random(17).sample(POISON, 20)
    recipe = replace(recipe, batch=5, environment=replace(recipe.environment, time_limit=5.0))
    for steps in (2, 4):
        train(replace(recipe, budget=Budget(steps=steps)), tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        attempts = log.attempts()
        assert [event.kind for event in log.events()].count("resumed") == 1
    assert len(attempts) == 20
    assert "sandbox-failure" not in {attempt.status for attempt in attempts}
    assert not any(attempt.valid for attempt in attempts)
    assert all(attempt.relative_reward <= -10 for attempt in attempts), "a failure is charged"
    assert "attempts" in page.write(tmp_path / "run").read_text()


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


def test_a_budget_that_grows_is_on_record_for_reports(recipe, tmp_path):
    for seconds in (0.5, 0.5, 1.0):
        train(replace(recipe, budget=Budget(script_seconds=seconds)), tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        noted = [event.message for event in log.events() if event.kind == "budget"]
    assert noted == ["script_seconds = 1.0"]
    assert read(tmp_path / "run").stated_budget == pytest.approx(1.0 / recipe.batch)


def test_every_limit_that_changes_is_on_record_so_that_a_page_knows_whether_the_run_has_ended(recipe, tmp_path):
    budgets = (Budget(steps=1), Budget(steps=2), Budget(script_seconds=0.2), Budget(steps=2))
    ended = []
    for budget in budgets:
        train(replace(recipe, budget=budget), tmp_path / "run")
        ended.append(read(tmp_path / "run").ended)
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        noted = [event.message for event in log.events() if event.kind == "budget"]
    assert noted == ["steps = 2", "steps = None", "script_seconds = 0.2", "steps = 2", "script_seconds = None"]
    assert ended == [True] * 4
    assert read(tmp_path / "run").budget == {"steps": 2.0}


def test_from_python_a_recipe_is_given_by_name_with_settings(recipe, tmp_path):
    from rewardrate import config

    (tmp_path / "mine.toml").write_text(config.dumps(recipe))
    with pytest.raises(InputError, match=r"there is no such arm.*rpg"):
        rewardrate.train(recipe, tmp_path / "run", arm="rgp")
    with pytest.raises(InputError, match="they are for a recipe by name"):
        rewardrate.train(recipe, tmp_path / "run", settings=["seed=1"])
    with pytest.raises(InputError, match=r"there is no recipe of that name.*laptop"):
        rewardrate.train("lapto", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    settings = ["budget.steps=1", "batch=2", "seed=3"]
    folder = rewardrate.train(str(tmp_path / "mine.toml"), str(tmp_path / "run"), arm="vanilla", settings=settings)
    run = rewardrate.load_run(folder)
    assert (run.about["arm"], run.settings["seed"], run.attempts.step.tolist()) == ("vanilla", 3, [1, 1])


def test_a_recipe_that_cannot_be_had_leaves_no_folder_behind(recipe, tmp_path):
    with pytest.raises(InputError, match="being wrong"):
        train(replace(recipe, task="diamonds"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_record_says_which_engine_draws_the_replies_and_why(tmp_path):
    pytest.importorskip("torch", reason="needs the agent extra")
    settings = ["task=digits8x8", "batch=2", "budget.steps=1", "policy.sampling.new_tokens=8", "policy.device=cpu"]
    with RunLog.open(train("laptop", tmp_path / "run", settings=settings), read_only=True) as log:
        (told,) = [event.message for event in log.events() if event.kind == "sampling"]
    assert told == "eager: there is no GPU"
