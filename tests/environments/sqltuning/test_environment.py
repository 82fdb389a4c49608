"""Real proposals on real data in the sandbox: tunings that pay, failures, and proposals that cheat."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import chat_server
from rewardrate import config
from rewardrate.environments.contract import CHECKS, subject
from rewardrate.environments.sqltuning.environment import (
    MOST_REWARD,
    SqlTuningSettings,
    Yardstick,
    measure,
)
from rewardrate.errors import InputError
from rewardrate.reports import page
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Pool, Result
from rewardrate.sandbox.runner import isolation
from rewardrate.training.recipe import Recipe
from rewardrate.training.session import train

pytestmark = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)
SMALL = str(Path(__file__).parent / "small.sql")
INDEX = "CREATE INDEX day ON weather(month, day);"


def reply(sql):
    return f"I would add this.\n```sql\n{sql}\n```\nIt should help."


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def setup(cache):
    return SqlTuningSettings(time_limit=10.0, memory_bytes=2**28).setup(SMALL, "wall")


@pytest.fixture(scope="module")
def environment(setup):
    with Pool(1, repeats=0) as pool:
        yield setup.environment(pool, len)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract_is_kept(setup, check):
    with Pool(1, repeats=0) as pool:
        check(subject(setup, pool))


def test_an_index_pays_the_reference_earns_one_and_the_message_says_what_is_slow(environment, setup):
    some, best = environment.execute([reply(INDEX), *setup.example_replies()])
    assert some.valid
    assert 0.1 < some.reward < 0.9 < best.reward < 1.1
    assert 1.1 < some.score < best.score
    assert "plan of Q2: SCAN weather" in some.message
    assert some.code == INDEX
    final = environment.final_evaluation(best.code)
    assert final.valid
    assert 0.8 < final.reward < 1.2


FAILURES = {
    "no words but these": ("format", "it needs a ```sql block"),
    reply(""): ("format", "it needs a ```sql block"),
    reply("SELECT 1;" * 4000): ("format", "it needs a ```sql block"),
    reply("-- Q7\nSELECT 1"): ("format", "there is no query Q7"),
    reply("CREATE INDEX a ON weather(no_such);"): ("error", "no such column: no_such"),
    reply("-- Q2\nSELECT :day"): ("error", "Q2: You did not supply a value for binding"),
    reply("ANALYZE;"): ("no-gain", "no gain: speed-up"),
    reply("CREATE TABLE b(x);" + "INSERT INTO b VALUES (zeroblob(9000000));" * 300): ("memory", "used more than"),
}


@pytest.mark.parametrize("proposal", FAILURES, ids=lambda proposal: proposal[-40:])
def test_failures_have_a_status_and_say_what_was_under_way(environment, proposal):
    (outcome,) = environment.execute([proposal])
    status, words = FAILURES[proposal]
    assert (outcome.valid, outcome.reward, outcome.status) == (False, 0.0, status)
    assert words in outcome.message


def test_a_proposal_that_does_not_end_is_charged_the_limit(environment):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n;"
    (outcome,) = environment.execute([reply(endless)])
    assert (outcome.status, outcome.seconds) == ("timeout", 10.0)
    assert outcome.message.startswith("WITH RECURSIVE n(i)")


def cached(environment):
    """The answer to the parameters that the prompt shows, kept in a table; the right query for no others."""
    query = environment.workload.queries["Q2"]
    count, warmth = query.answers[0][0]
    return f"CREATE TABLE kept AS SELECT {count}, {warmth};\n-- Q2\nSELECT * FROM kept"


CHEATS = {
    "answers of the values that are shown": (cached, "wrong-result"),
    "constants": (lambda _: "-- Q1\nSELECT 'EWR', 1, 20.0", "wrong-result"),
    "less data": (lambda _: "DELETE FROM weather WHERE month > 6;", "wrong-result"),
    "no data": (lambda _: "DROP TABLE weather; CREATE TABLE weather(a);", "error"),
    "a view instead of the table": (
        lambda _: "ALTER TABLE weather RENAME TO old; CREATE VIEW weather AS SELECT * FROM old LIMIT 99;",
        "wrong-result",
    ),
    "the request of the runner": (lambda _: "ATTACH 'request.json' AS a;", "error"),
    "the database as it was": (lambda _: "ATTACH 'data/workload.db' AS a;", "error"),
    "a report of its own": (lambda _: "VACUUM INTO 'report.json';", "error"),
    "more threads than the clock sees": (lambda _: "PRAGMA threads = 8;", "error"),
    "a query that keeps its result": (lambda _: "-- Q1\nCREATE TABLE kept AS SELECT 1", "error"),
    "an extension": (lambda _: "SELECT load_extension('/lib/x.so');", "error"),
    "a forged schema": (lambda _: "PRAGMA writable_schema = 1;", "error"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_a_proposal_that_cheats_earns_nothing(environment, name):
    write, status = CHEATS[name]
    (outcome,) = environment.execute([reply(write(environment))])
    assert (outcome.valid, outcome.reward, outcome.status) == (False, 0.0, status)


@pytest.mark.parametrize(
    "report",
    ["", "[]", "{}", "null", '{"queries": {}}', '{"queries": {"Q1": 1, "Q2": 2}}', '{"error": 1}', "[" * 5000],
)
def test_a_report_that_cannot_be_read_is_an_error_and_no_exception(environment, report):
    outcome = environment.judge("x", Result("ok", 1.0, 1.0, 0, "", "", {"report.json": report.encode()}))
    assert (outcome.status, outcome.reward) == ("error", 0.0)
    assert environment.judge("x", Result("ok", 1.0, 1.0, 0, "", "", {})).status == "error"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_seconds_that_are_none_earn_nothing(environment, seconds):
    found = {
        n: {"rows": q.answers[1:5], "seconds": seconds, "plan": []} for n, q in environment.workload.queries.items()
    }
    report = json.dumps({"queries": found}).encode()
    outcome = environment.judge("x", Result("ok", 1.0, 1.0, 0, "", "", {"report.json": report}))
    assert (outcome.valid, outcome.reward) == (False, 0.0)


def test_the_gain_is_a_logarithm_between_no_tuning_and_the_reference():
    yardstick = Yardstick({"Q1": 0.01, "Q2": 0.04}, 16.0)
    assert yardstick.speed_up({"Q1": 0.01, "Q2": 0.04}) == pytest.approx(1.0)
    assert yardstick.speed_up({"Q1": 0.01, "Q2": 0.01}) == pytest.approx(2.0)
    assert yardstick.speed_up({"Q1": 0.0, "Q2": 1e-9}) == pytest.approx(200.0), "quicker than the clock is no gain"
    assert [yardstick.gain(x) for x in (0.1, 1.0, 4.0, 16.0)] == [0.0, 0.0, pytest.approx(0.5), pytest.approx(1.0)]
    assert yardstick.gain(1e9) == MOST_REWARD


def test_the_last_closed_block_counts(environment):
    extract = environment.extract
    assert extract("```sql\na\n```\nor better\n```SQLite\n b;\n```\nso") == "b;"
    assert extract("```\nc\n```") == "c"
    with pytest.raises(InputError, match="reply"):
        extract("```sql\nCREATE INDEX")
    with pytest.raises(InputError, match="reply"):
        extract("```python\nprint()\n```")


@pytest.mark.parametrize("text", ["```" + " " * 200_000, "```sql\n" * 30_000, "`" * 200_000, "``` " * 50_000])
def test_a_reply_that_is_hard_to_read_is_read_in_no_time(environment, text):
    start = time.thread_time()
    with contextlib.suppress(InputError):
        environment.extract(text)
    assert time.thread_time() - start < 1.0


def test_parts_replace_queries_and_setup_may_come_in_parts(environment):
    code = "A;\n-- q2: quicker\nSELECT 2;\n  -- setup\nB;\n-- Q1\n;"
    request = json.loads(environment.job(code).files["request.json"])
    assert request["setup"].split() == ["A;", "B;"]
    assert request["queries"]["Q2"] == "SELECT 2"
    assert request["queries"]["Q1"] == environment.workload.queries["Q1"].sql
    assert "answers" not in request


def test_the_prompt_shows_schema_queries_one_value_each_and_the_parent(setup, environment):
    (message,) = environment.prompt()
    text = message["content"]
    workload = setup.workload
    assert workload.schema in text
    assert all(query.sql in text for query in workload.queries.values())
    assert json.dumps(workload.queries["Q1"].cases[0]) in text
    assert not any(json.dumps(case) in text for case in workload.queries["Q1"].cases[1:])
    assert "CREATE INDEX hours" not in text, "the reference is not shown"
    compact = replace(setup, settings=SqlTuningSettings(prompt="compact")).environment(environment.executor, len)
    assert len(compact.prompt()[0]["content"]) < len(text)


def test_the_yardstick_is_measured_once_and_kept(setup):
    assert measure(setup.workload, setup.settings) == setup.yardstick
    facts = setup.facts()
    assert set(setup.must_match) <= set(facts)
    assert facts["direction"] == "maximize"


@pytest.mark.parametrize(
    ("reference", "words"), [("DELETE FROM weather;", "its reference did not run"), ("ANALYZE;", "no faster than no")]
)
def test_a_workload_whose_reference_is_none_is_refused(cache, tmp_path, reference, words):
    broken = tmp_path / "broken.sql"
    broken.write_text(f"{Path(SMALL).read_text().partition('-- reference')[0]}-- reference\n{reference}\n")
    with pytest.raises(InputError, match=words):
        SqlTuningSettings().setup(str(broken), "wall")


def test_rewardrate_train_sql_tuning_trains_and_draws_its_page(cache, chat, tmp_path):
    """The recipe as it ships, but for the small workload and the model on loopback: good SQL and bad."""
    overrides = [f"policy.url={chat}", "policy.model=chatty", "policy.parallel=1", f"task={SMALL}"]
    recipe = config.load(Recipe, config.find_recipe("sql-tuning"), [*overrides, "batch=4", "budget.steps=2"])
    recipe = replace(recipe, sandbox=replace(recipe.sandbox, repeats=0))
    bad = [reply("CREATE INDEX a ON weather(no_such);"), "I would rather not.", reply("-- Q1\nSELECT 1, 2, 3")]
    chat_server.Chat.replies = [reply(INDEX), *bad, reply(INDEX + "\nCREATE INDEX t ON weather(time_hour, temp);")]
    train(recipe, tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        attempts, about = log.attempts(), log.about()
        assert any(event.kind == "report" for event in log.events())
    assert (about["metric"], about["direction"]) == ("speed-up", "maximize")
    assert {"ok", "error", "format", "wrong-result"} <= {attempt.status for attempt in attempts}
    prompts = [request["messages"][-1]["content"] for request in chat_server.Chat.asked]
    assert "Your last answer was" not in prompts[0]
    assert INDEX in prompts[-1]
    assert "speed-up" in prompts[-1]
    text = page.write(tmp_path / "run").read_text()
    assert "speed-up" in text
    assert "CREATE INDEX" in text


@pytest.mark.slow
def test_the_shipped_workload_takes_real_time_and_its_reference_speeds_it_up_a_hundredfold(cache):
    setup = SqlTuningSettings(time_limit=300.0).setup("flights", "wall")
    assert setup.yardstick.reference > 50
    assert sum(setup.yardstick.baseline.values()) > 0.05
    with Pool(1, repeats=0) as pool:
        (outcome,) = setup.environment(pool, len).execute(setup.example_replies())
    assert outcome.valid
    assert 0.9 < outcome.reward < 1.1
    assert outcome.seconds > 0.5
