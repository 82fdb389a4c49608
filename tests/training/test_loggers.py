"""Loggers: real files read back, each step once whatever happens, and a run that never waits for them."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import toy_agent
from rewardrate.runlog import RunLog
from rewardrate.training import loggers
from rewardrate.training.loggers import Loggers, Mark, curves, title

HERE = Path(__file__).parent


def train(folder, names, steps, every=1, **options):
    """A toy run with loggers, as the session runs it."""
    loop = toy_agent.loop(folder, steps=steps, batch=4, every=every)
    with loop.log, Loggers(names, loop.log, {"batch": 4, "objective.arm": "rpg"}, **options) as following:
        loop.on_step = lambda step: following.follow()
        loop.run()


def events(folder):
    """{curve: [(step, value)]} of all event files, in the order in which they were written."""
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = {}
    for path in sorted((folder / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


@pytest.fixture
def _tensorboard():
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    pytest.importorskip("torch", reason="needs the agent extra")


class Memory:
    """A logger that keeps what it is given; fails, dies or hangs at a step if told to."""

    given, trouble = {}, {}

    def __init__(self, folder, mark, settings):
        self.rows = Memory.given.setdefault(folder, [])

    def write(self, step, numbers):
        if step in Memory.trouble:
            Memory.trouble[step]()
        self.rows.append((step, dict(numbers)))

    def close(self):
        self.rows.append("closed")


@pytest.fixture
def _memory(monkeypatch):
    Memory.given, Memory.trouble = {}, {}
    monkeypatch.setitem(loggers.KINDS, "wandb", Memory)


def numbers_of(folder):
    with RunLog.open(folder, read_only=True) as log:
        return [(row.step, curves(row, log.attempts(row.step))) for row in log.steps()]


@pytest.mark.usefixtures("_tensorboard")
def test_tensorboard_holds_every_curve_of_the_record(tmp_path):
    train(tmp_path / "run", ["tensorboard"], 4)
    found = events(tmp_path / "run")
    record = numbers_of(tmp_path / "run")
    assert set(found) == set(record[0][1])
    for name, points in found.items():
        assert points == [(step, pytest.approx(numbers[name], rel=1e-6)) for step, numbers in record]


@pytest.mark.usefixtures("_tensorboard")
def test_a_run_that_goes_on_writes_no_step_twice_and_leaves_none_out(tmp_path):
    for steps in (2, 3, 7):
        train(tmp_path / "run", ["tensorboard"], steps, every=5)
    assert [step for step, _ in events(tmp_path / "run")["rate/rate"]] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.usefixtures("_tensorboard")
def test_a_logger_that_is_added_later_is_handed_the_whole_run(tmp_path):
    train(tmp_path / "run", [], 3)
    train(tmp_path / "run", ["tensorboard"], 4)
    assert [step for step, _ in events(tmp_path / "run")["rate/rate"]] == [1, 2, 3, 4]


def offline_records(path):
    """What wandb wrote: a log of LevelDB's format (blocks of 32 KiB, parts with checksum, length and kind)."""
    from wandb.proto import wandb_internal_pb2

    data, at, part = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        part += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(part)
            part = b""
            yield record


@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_gets_an_offline_run_with_the_same_id_when_it_goes_on(tmp_path):
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    for steps in (2, 4):
        train(tmp_path / "run", ["wandb"], steps, every=3)
        time.sleep(1.1)  # parts are named after the second
    found, ids = [], set()
    for path in sorted((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")):
        for record in offline_records(path):
            if record.HasField("run"):
                ids.add(record.run.run_id)
            items = {(item.key or ".".join(item.nested_key)): item.value_json for item in record.history.item}
            if "rate/rate" in items:
                found.append((record.history.step.num, json.loads(items["rate/rate"])))
    record = numbers_of(tmp_path / "run")
    assert found == [(step, pytest.approx(numbers["rate/rate"])) for step, numbers in record]
    assert len(ids) == 1


@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_the_run_once_with_its_settings_and_curves(tmp_path):
    pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra mlflow is not installed")
    from mlflow.tracking import MlflowClient

    for steps in (2, 4):
        train(tmp_path / "run", ["mlflow"], steps, every=3)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("rewardrate").experiment_id])
    assert run.data.params == {"batch": "4", "objective.arm": "rpg"}
    record = numbers_of(tmp_path / "run")
    for name in record[0][1]:
        history = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]
        assert history == [(step, pytest.approx(numbers[name])) for step, numbers in record]


@pytest.mark.usefixtures("_memory")
def test_a_logger_that_fails_is_named_once_and_the_run_goes_on(tmp_path, caplog):
    Memory.trouble[2] = lambda: 1 / 0
    with caplog.at_level(logging.WARNING, logger="rewardrate"):
        train(tmp_path / "run", ["wandb"], 5)
    failure = "ZeroDivisionError: division by zero"
    assert [record.message for record in caplog.records] == [f"the logger wandb is off: {failure}"]
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert log.last_step() == 5
        assert [event.message for event in log.events() if event.kind == "logger"] == [f"wandb is off: {failure}"]
    rows = Memory.given[tmp_path / "run"]
    assert [rows[0][0], *rows[1:]] == [1, "closed"]


@pytest.mark.usefixtures("_memory")
def test_after_a_failure_the_next_session_hands_over_what_is_missing_but_the_step_that_failed(tmp_path):
    Memory.trouble[2] = lambda: 1 / 0
    train(tmp_path / "run", ["wandb"], 3)
    Memory.trouble = {}
    train(tmp_path / "run", ["wandb"], 5)
    assert [row[0] for row in Memory.given[tmp_path / "run"] if row != "closed"] == [1, 3, 4, 5]


@pytest.mark.usefixtures("_memory")
def test_a_logger_that_hangs_keeps_nobody_waiting(tmp_path, caplog):
    Memory.trouble[1] = lambda: time.sleep(60)
    start = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="rewardrate"):
        train(tmp_path / "run", ["wandb"], 3, patience=0.2)
    assert time.monotonic() - start < 30
    assert "did not finish within 0.2 seconds" in caplog.text
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert log.last_step() == 3


def test_a_logger_that_is_not_installed_is_a_warning_with_the_command_that_adds_it(tmp_path, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with caplog.at_level(logging.WARNING, logger="rewardrate"):
        train(tmp_path / "run", ["tensorboard"], 2)
    assert "pip install 'rewardrate[tensorboard]'" in caplog.text
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert log.last_step() == 2


@pytest.mark.usefixtures("_memory")
@pytest.mark.parametrize("text", ["{", '{"run": "a"}', "[]", '{"run": "a", "step": "x"}'])
def test_a_damaged_mark_turns_its_logger_off_and_nothing_else(tmp_path, caplog, text):
    (tmp_path / "run" / "loggers").mkdir(parents=True)
    train(tmp_path / "other", [], 1)
    (tmp_path / "other" / "loggers").mkdir()
    (tmp_path / "other" / "loggers" / "wandb.json").write_text(text)
    with caplog.at_level(logging.WARNING, logger="rewardrate"):
        train(tmp_path / "other", ["wandb"], 3)
    assert "loggers/wandb.json cannot be read" in caplog.text
    assert not Memory.given


def test_a_mark_comes_back_from_disk_and_keeps_the_runs_name(tmp_path):
    mark = Mark.read(tmp_path / "loggers" / "x.json")
    moved = mark.moved(7)
    assert Mark.read(tmp_path / "loggers" / "x.json") == moved
    assert (moved.step, moved.run) == (7, mark.run)


def test_a_step_without_a_valid_attempt_has_reward_0_and_no_best_one(tmp_path):
    class Broken(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            return super().stream(["nothing"] * len(replies), parents)

    loop = toy_agent.loop(tmp_path / "run", steps=1, batch=4, environment=Broken())
    with loop.log:
        loop.run()
        ((_, numbers),) = [(row.step, curves(row, loop.log.attempts(1))) for row in loop.log.steps()]
    assert numbers["attempts/valid_share"] == 0.0
    assert numbers["attempts/reward"] == 0.0
    assert "attempts/best_reward" not in numbers
    assert {"attempts/seconds", "rate/rate", "rate/low", "budget/script_seconds", "phases/learn"} <= set(numbers)


def test_a_run_is_called_after_its_folder_and_the_experiment_it_stands_in(tmp_path):
    assert title(tmp_path / "demo" / "rpg") == "demo/rpg"


KILLED = """
import sys; sys.path[:0] = [{tests!r}, {here!r}]
from pathlib import Path
import toy_agent
from rewardrate.training.loggers import Loggers
loop = toy_agent.loop(Path({folder!r}), steps={steps}, batch=4, every=3, environment=toy_agent.TwoArms(pause=0.005))
with loop.log, Loggers(["tensorboard"], loop.log, {{}}) as following:
    loop.on_step = lambda step: following.follow()
    loop.run()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_tensorboard")
def test_a_run_that_is_killed_again_and_again_writes_no_step_twice(tmp_path):
    folder = tmp_path / "run"
    command = KILLED.format(tests=str(HERE.parent), here=str(HERE), folder=str(folder), steps=150)
    for wait in (3.0, 3.5, 4.0, 3.2):
        with subprocess.Popen([sys.executable, "-c", command]) as process:
            time.sleep(wait)
            os.kill(process.pid, signal.SIGKILL)
    subprocess.run([sys.executable, "-c", command], check=True, timeout=600)
    steps = [step for step, _ in events(folder)["rate/rate"]]
    assert len(steps) == len(set(steps))
    assert steps == sorted(steps)
    assert len(steps) >= 150 - 4, "a kill may leave out the step that was being written, and no other"
