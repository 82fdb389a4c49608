"""A log that goes back to an earlier step is what it was after that step, at whatever moment the process dies."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.runlog import Origin, RunLog

TABLES = ("attempts", "pending", "payloads", "states", "steps", "about")
CLOCK = ("finished", "time")


def step_of(log, step, rows=3, states=True):
    origin = Origin([{"role": "user", "content": f"improve step {step - 1}"}], None, "old" if step == 1 else "")
    log.begin_step(
        step, [Proposal(f"reply {step}.{row}", (1,), (2, 3), (-0.5,) * 2) for row in range(rows)], [origin] * rows
    )
    for row in range(rows):
        status = "sandbox-failure" if (step, row) == (2, 0) else "ok"
        valid = status == "ok"
        log.outcome(step, row, Outcome(valid, valid * step / 10, None, 1.0 + row, "m", status, f"code {step}.{row}"))
    rate = RateEstimate(0.1 * step, 0.1 * step, 0.0, 1.0, 3 * step)
    name = log.checkpoint(step, lambda path: (path / "w").write_text(str(step))) if states else None
    log.commit_step(step, rate, [0.1] * rows, [0.0] * rows, states={"rng": step} if states else None, checkpoint=name)


def made(folder, steps, states=True, pending=False):
    with RunLog.create(folder, "", {"seed": "1"}) as log:
        for step in range(1, steps + 1):
            step_of(log, step, states=states)
        if pending:
            log.begin_step(steps + 1, [Proposal("begun")] * 2)
    return folder


def dump(folder, tables=TABLES):
    found = {}
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        db.row_factory = sqlite3.Row
        for table in tables:
            rows = [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]
            found[table] = [{name: row[name] for name in row if name not in CLOCK} for row in rows]
        found["texts"] = sorted(str(row[0]) for row in db.execute("SELECT text FROM texts"))
    return found


def events(log):
    return [(event.step, event.kind, event.message) for event in log.events()]


@pytest.mark.parametrize("step", range(5))
def test_the_record_is_what_it_was_after_that_step(tmp_path, step):
    folder, calm = made(tmp_path / "run", 5, states=False, pending=True), made(tmp_path / "calm", step, states=False)
    with RunLog.open(folder) as log:
        log.rewind(step)
        dropped = 3 * (5 - step) + 2
        assert events(log) == [
            (step, "rewound", f"to step {step}: steps {step + 1} to 6 are dropped, {dropped} attempts")
        ]
    assert dump(folder) == dump(calm)


def test_the_run_continues_from_there_with_the_budget_of_there(tmp_path):
    folder, calm = made(tmp_path / "run", 6, states=False), made(tmp_path / "calm", 6, states=False)
    with RunLog.open(folder) as log:
        spent = [row.script_seconds for row in log.steps()]
        assert spent == [6.0, 11.0, 17.0, 23.0, 29.0, 35.0], "a failure of the sandbox uses no budget"
        log.rewind(2)
        assert [row.script_seconds for row in log.steps()] == spent[:2]
        for step in range(3, 7):
            step_of(log, step, states=False)
        assert [row.script_seconds for row in log.steps()] == spent
    assert dump(folder) == dump(calm)


def test_a_step_that_has_only_begun_is_dropped_too(tmp_path):
    folder = made(tmp_path / "run", 2, pending=True)
    with RunLog.open(folder) as log:
        log.rewind(2)
        assert (log.pending(), log.last_step()) == ((), 2)
        assert events(log) == [(2, "rewound", "to step 2: steps 3 to 3 are dropped, 2 attempts")]
        log.rewind(2)
        assert len(log.events()) == 1, "there was nothing to drop"
        assert log.begin_step(3, [Proposal("new")]) == [7]


def test_states_and_checkpoints_of_dropped_steps_go_and_earlier_ones_stay(tmp_path):
    with RunLog.open(made(tmp_path / "run", 4)) as log:
        log.rewind(3)
        assert sorted(path.name for path in (log.folder / "checkpoints").iterdir()) == ["step-000003"]
        resumed = log.resume()
        assert (resumed.step, resumed.states, resumed.recorded) == (3, {"rng": 3}, {})
        log.rewind(1)  # its states were dropped long ago: an engine of its own checkpoints needs none
        assert list((log.folder / "checkpoints").iterdir()) == []
        step_of(log, 2)
        assert log.resume().step == 2


def test_a_final_evaluation_of_dropped_steps_is_forgotten_and_other_events_stay(tmp_path):
    with RunLog.open(made(tmp_path / "run", 2)) as log:
        log.note("report", "attempt 5: reward 0.2, fine")
        log.note("node-lost", "one")
        step_of(log, 3)
        log.note("report", "attempt 8: reward 0.3, fine")
        log.rewind(2)
        assert [kind for _, kind, _ in events(log)] == ["report", "node-lost", "rewound"]
        log.rewind(1)
        assert [kind for _, kind, _ in events(log)] == ["node-lost", "rewound", "rewound"]


@pytest.mark.parametrize("step", [-1, 3, 1.0, True, None, "1"])
def test_a_step_that_is_none_of_the_run_is_refused_and_nothing_is_changed(tmp_path, step):
    folder = made(tmp_path / "run", 2)
    before = dump(folder)
    with RunLog.open(folder) as log, pytest.raises(InputError, match=r"^step = "):
        log.rewind(step)
    assert dump(folder) == before
    with RunLog.open(folder, read_only=True) as log, pytest.raises(InputError, match="opened for reading"):
        log.rewind(1)


KILLED = """
import os, signal, sys
from pathlib import Path
from rewardrate.runlog import RunLog
left = int(sys.argv[2])
def count(statement):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
log = RunLog.open(Path(sys.argv[1]))
log._db.set_trace_callback(count)
log.rewind(2)
log._db.set_trace_callback(None)
log.close()
"""


def test_killed_at_any_moment_the_record_is_that_of_before_or_of_after(tmp_path):
    folder = made(tmp_path / "run", 4, pending=True)
    with RunLog.open(shutil.copytree(folder, tmp_path / "after")) as log:
        log.rewind(2)
    before, after = dump(folder), dump(tmp_path / "after")
    seen = set()
    for statement in range(1, 100):
        copy = shutil.copytree(folder, tmp_path / f"copy{statement}")
        done = subprocess.run([sys.executable, "-c", KILLED, copy, str(statement)], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        last = 4
        with RunLog.open(copy) as log:
            last = log.last_step()
            names = sorted(os.listdir(copy / "checkpoints"))
        assert dump(copy) == (before if last == 4 else after)
        assert names == (["step-000003", "step-000004"] if last == 4 else [])
        seen.add(last)
        if done.returncode == 0:
            break
    assert statement > 10
    assert seen == {4, 2}
