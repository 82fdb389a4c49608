"""Logs of version 1 are read as they are, and brought to version 2 by the first process that writes.

`version1/` was made by rewardrate as of commit 42025fe: the toy agent, stopped in step 4 after two of four attempts; a
seed stands in its buffer. Steps 1 and 2 are a resume point, step 3 has none.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import toy_agent
from rewardrate.errors import InputError
from rewardrate.reports import page
from rewardrate.reports import run as reports
from rewardrate.reports.speedrun import with_seeds
from rewardrate.runlog import RunLog, best, schema, versions
from rewardrate.training.buffer import Solution

MADE = Path(__file__).parent / "version1"
ALL = ("attempts", "pending", "steps", "states", "events", "about", "payloads")
OLD = ("attempts_rows", "pending_rows", "texts", "steps", "states", "events", "about", "payloads")


@pytest.fixture
def old(tmp_path):
    """A folder of version 1."""
    folder = tmp_path / "old"
    shutil.copytree(MADE, folder)
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        db.executescript((folder / "run.sql").read_text())
    (folder / "run.sql").unlink()
    return folder


def version(folder):
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def dump(folder, tables=ALL, ignore=()):
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        db.row_factory = sqlite3.Row
        return {
            table: [
                {name: row[name] for name in row.keys() if name not in ignore}  # noqa: SIM118
                for row in db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
            ]
            for table in tables
        }


def floats(row):
    """Its numbers, to be compared to a last bit or two: processors sum in orders of their own."""
    return {name: pytest.approx(value, rel=1e-12) for name, value in row.items() if isinstance(value, float)}


def answers(log):
    """What every question of a reader is answered."""
    with log.snapshot():
        numbers = log.table("id")["id"]
        return {
            "about": log.about(),
            "config": log.config_text(),
            "last": log.last_step(),
            "steps": log.steps(),
            "attempts": log.attempts(),
            "second": log.attempts(2),
            "each": [log.attempt(number) for number in numbers],
            "table": log.table("id", "seed", "prompt", "rank_key", "reward", "code"),
            "prompts": [log.prompt(number) for number in (*numbers, *(row.attempt for row in log.pending()))],
            "pending": log.pending(),
            "events": log.events(),
        }


def test_a_log_of_version_1_is_read_as_it_is_and_left_alone(old):
    before = (old / "run.sqlite").read_bytes()
    with RunLog.open(old, read_only=True) as log:
        found = answers(log)
    assert (old / "run.sqlite").read_bytes() == before
    assert (found["last"], found["config"], found["about"]["task"]) == (3, "batch = 4\nseed = 0\n", "toy")
    assert found["each"] == found["attempts"]
    assert found["second"] == found["attempts"][4:8]
    made_of = [(row.parent, row.seed) for row in found["attempts"]]
    assert made_of == [(None, "old")] * 4 + [
        (2, ""),
        (3, ""),
        (None, "old"),
        (1, ""),
        (8, ""),
        (2, ""),
        (3, ""),
        (None, "old"),
    ]
    assert found["table"]["seed"] == [seed for _, seed in made_of]
    assert set(found["table"]["rank_key"]) == {None}
    assert found["prompts"] == [[]] * 16
    assert [(row.attempt, row.row, row.parent, row.seed) for row in found["pending"]] == [
        (13, 0, 9, ""), (14, 1, 10, ""), (15, 2, 11, ""), (16, 3, 12, ""),
    ]  # fmt: skip
    assert [row.outcome and row.outcome.reward for row in found["pending"]] == [1.5, 1.0, None, None]
    first = found["pending"][0].proposal
    assert (first.text, first.prompt_tokens, first.reply_tokens) == ("slow 2494635221133837528 0", (0,), (1,))
    assert first.logprobs == (-1.011722616865218,)
    assert found["steps"][1].rate.count == 8
    assert best(found["attempts"]).id == 1, "1.5 in five seconds, the first of them"


def test_a_page_is_drawn_of_it(old):
    run = reports.read(old)
    assert (run.best.id, run.under_way, len(run.attempts)) == (1, (2, 4), 12)
    assert with_seeds(run)[0] == ["old"]
    assert "seed" in page.write(old).read_text()
    assert version(old) == 1


def test_opened_for_writing_it_becomes_version_2_and_says_the_same(old):
    with RunLog.open(old, read_only=True) as log:
        before = answers(log)
    tables = dump(old, ("steps", "states", "payloads", "events", "about"))
    RunLog.open(old).close()
    assert version(old) == schema.VERSION == 2
    with RunLog.open(old, read_only=True) as log:
        assert answers(log) == before
    assert dump(old, tuple(tables)) == tables
    with closing(sqlite3.connect(old / "run.sqlite")) as db:
        assert db.execute("SELECT count(*) FROM texts WHERE text LIKE '[seed%'").fetchone() == (0,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_it_is_resumed_as_if_it_had_always_been_version_2(old, tmp_path):
    def trained(folder):
        run = toy_agent.loop(folder, steps=6, batch=4, every=2)
        run.pricer.buffer.start_with([Solution(-1, "quick old", "earned 1.0", 1.0, 1.0, 0, 1.0, seed="old")])
        run.run()
        run.log.close()
        return dump(folder, ("attempts", "steps", "states"), ("finished", "phases", "prompt"))

    resumed, calm = trained(old), trained(tmp_path / "calm")
    for table in ("attempts", "steps", "states"):
        assert len(resumed[table]) == len(calm[table])
        for one, other in zip(resumed[table], calm[table], strict=True):
            assert {**one, **floats(one)} == other  # the old one was made on another machine
    with RunLog.open(old, read_only=True) as log:
        assert log.last_step() == 6
        assert log.prompt(4) == []
        parent = log.attempt(log.attempt(20).parent)
        assert log.prompt(20) == [{"role": "user", "content": parent.code}]
        assert "replay-differs" not in {event.kind for event in log.events()}


def test_another_producers_prompts_become_chats(old):
    prompts = [
        "plain [seed: x]",
        "[seed: no/name]",
        '[{"role": "user", "content": "plain [seed: x]"}]',
        b"\xed\xa0\x80",
    ]
    with closing(sqlite3.connect(old / "run.sqlite")) as db:
        for number, text in enumerate(prompts, start=1):
            place = db.execute("INSERT INTO texts (sha256, text) VALUES (?, ?)", (bytes([number]), text)).lastrowid
            db.execute("UPDATE attempts_rows SET prompt = ? WHERE id = ?", (place, number))
        db.commit()
    contents = [*prompts[:3], "\ud800"]
    for read_only in (True, False):
        with RunLog.open(old, read_only) as log:
            assert [log.prompt(number) for number in (1, 2, 3, 4)] == [
                [{"role": "user", "content": content}] for content in contents
            ]
            assert log.table("seed")["seed"][:8] == [""] * 6 + ["old", ""]


def test_a_reader_that_is_connected_while_it_is_migrated_goes_on_reading(old):
    with RunLog.open(old, read_only=True) as reader:
        before = answers(reader)
        with RunLog.open(old) as writer:
            assert answers(reader) == before
            writer.outcome(4, 2, before["pending"][0].outcome)
            writer.outcome(4, 3, before["pending"][0].outcome)
            writer.commit_step(4, before["steps"][0].rate, [0.0] * 4, [0.0] * 4)
            assert answers(reader) == answers(writer)
            assert reader.attempts()[6].seed == "old"


KILLED = """
import os, signal, sys
from pathlib import Path
from rewardrate.runlog import schema, versions
left = int(sys.argv[2])
def count(statement):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
db = schema.connect(Path(sys.argv[1]))
db.execute("PRAGMA cache_size = 1")
db.set_trace_callback(count)
versions.migrate(db)
db.set_trace_callback(None)
"""


def test_a_process_killed_while_it_migrates_leaves_version_1_or_2_never_half(old, tmp_path):
    """It dies at one statement after another, and does not get to the end until there is none left to die at."""
    before = dump(old, OLD)
    whole = tmp_path / "whole"
    shutil.copytree(old, whole)
    RunLog.open(whole).close()
    for statement in range(1, 200):
        copy = tmp_path / f"copy{statement}"
        shutil.copytree(old, copy)
        done = subprocess.run([sys.executable, "-c", KILLED, copy / "run.sqlite", str(statement)], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        if version(copy) == 1:
            assert dump(copy, OLD) == before
        else:
            assert dump(copy, OLD) == dump(whole, OLD)
        with RunLog.open(copy) as log:
            assert log.resume().step == 2
        if done.returncode == 0:
            break
    assert 10 < statement < 199
    assert version(copy) == 2


def test_a_failure_while_migrating_leaves_version_1(old):
    with closing(sqlite3.connect(old / "run.sqlite")) as db:
        db.execute("DROP VIEW pending")
    before = dump(old, OLD)
    with pytest.raises(InputError, match="it is damaged or not a run log"):
        RunLog.open(old)
    assert (version(old), dump(old, OLD)) == (1, before)
    assert os.listdir(old / "checkpoints") == ["step-000002"]


def test_only_the_name_of_a_seed_is_taken_for_one():
    assert versions.seed_of("[seed: a_b.c+d-1]") == "a_b.c+d-1"
    for other in (None, "", b"[seed: a]", "[seed: ]", "[seed: a/b]", "x [seed: a]", "[seed: a] x", "[seed: a\n]"):
        assert versions.seed_of(other) is None
