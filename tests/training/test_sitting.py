"""A sitting: real runs in processes of their own, which end with it, however it ends."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

import chat_server
import made_comparison
from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.reports.survey import survey
from rewardrate.runlog import RunLog
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan, PretrainedStart
from rewardrate.runlog.folder import WriterLock
from rewardrate.sandbox.runner import isolation
from rewardrate.training.comparison import freeze, resolve
from rewardrate.training.sitting import Sitting, _spawn, shares

needs_a_box = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


@pytest.fixture
def plan(chat, tmp_path, monkeypatch):
    """A plan of one block whose policy is the chat model: (file, plan)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text(
        f"""
task = "digits8x8"
batch = 2
[budget]
script_seconds = 1.0
[policy]
kind = "endpoint"
url = "{chat}"
model = "chatty"
parallel = 1
retries = 100
[environment]
cores = 1
reward = "raw"
memory_bytes = 1000000000
[sandbox]
slots = 1
repeats = 0
"""
    )
    made = ComparisonPlan("none", str(tmp_path / "mine.toml"), ("digits8x8",), script_seconds=0.6, seeds=(0,),
                          arms=("vanilla", "cheap"), variants=("cheap: rpg objective.price_scale=0.25",))  # fmt: skip
    (tmp_path / "plan.toml").write_text(config.dumps(made))
    return tmp_path / "plan.toml", made


def wait_for(what, seconds=120.0):
    """The first value of `what()` that is true; the machine may be busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def steps(folder):
    """Committed steps of a run; 0 where there is none yet."""
    if not RunLog.exists(folder):
        return 0
    with sqlite3.connect(f"file:{folder / 'run.sqlite'}?mode=ro", uri=True) as db:
        found = db.execute("SELECT count(*) FROM steps").fetchone()[0]
    db.close()
    return found


def attempts(folder):
    with RunLog.open(folder, read_only=True) as log:
        return [(one.id, one.reply, one.seconds, one.finished) for one in log.attempts()]


def gone(pid):
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_runs_side_by_side_have_cores_of_their_own_for_what_they_compute(tmp_path):
    assert shares(range(16), 5) == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11), (12, 13, 14)]
    assert shares([2, 3], 1) == [(2, 3)]
    assert shares([2, 3, 7], 3) == [(2,), (3,), (7,)]
    core = max(os.sched_getaffinity(0))
    for share, found in (((core,), {core}), ((), os.sched_getaffinity(0))):
        process = _spawn(("--version",), tmp_path / "log", share)
        assert os.sched_getaffinity(process.pid) == found
        assert process.wait() == 0


@needs_a_box
def test_a_driver_that_is_killed_leaves_no_run_behind_and_the_same_command_completes_the_block(plan, tmp_path):
    path, _ = plan
    out = tmp_path / "out"
    call = [sys.executable, "-m", "rewardrate", "compare", str(path), "--out", str(out), "--jobs", "1"]
    first = out / "digits8x8-s0" / "vanilla"
    chat_server.Chat.statuses = dict.fromkeys(range(3, 1000), 503)  # the second step of the first run does not end
    driver = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: steps(first) or driver.poll() is not None)
        writer = int((first / "run.lock").read_text())
        assert writer != driver.pid
    finally:
        driver.kill()
        complaint = driver.communicate()[1]
    assert driver.returncode == -signal.SIGKILL, complaint
    wait_for(lambda: gone(writer), 60.0)
    chat_server.Chat.statuses = {}
    before = attempts(first)
    assert before
    folder, said = ComparisonFolder(out), []
    block = folder.plan().blocks[0]
    assert Sitting(folder, resolve(folder.plan()), jobs=1, say=said.append).work() == []
    assert said == ["digits8x8:0 vanilla: complete", "digits8x8:0 cheap: complete, the block is complete"]
    assert attempts(first)[: len(before)] == before, "nothing is lost and nothing is done twice"
    notes = folder.notes(block)
    assert [len(notes[arm]["sittings"]) for arm in ("vanilla", "cheap")] == [2, 1]
    assert notes["cheap"]["sittings"][0]["cores"] == sorted(os.sched_getaffinity(0)), "alone, a run may use them all"
    assert {note["start"] for note in notes.values()} == {"name:chatty"}
    assert all(note["ended"] for note in notes.values())
    (state,) = survey(folder).blocks
    assert state.complete
    assert not any("settings" in words for words in state.deviations)
    assert state.runs["cheap"].settings["objective.price_scale"] == 0.25
    requests, logs = len(chat_server.Chat.asked), sorted(out.glob("*/*.log"))
    sizes = [log.stat().st_size for log in logs]
    assert Sitting(folder, resolve(folder.plan()), say=said.append).work() == []
    assert (len(chat_server.Chat.asked), [log.stat().st_size for log in logs], len(said)) == (requests, sizes, 2)


@needs_a_box
def test_a_run_that_fails_is_told_and_one_that_is_not_over_in_time_is_interrupted(plan, tmp_path):
    made = plan[1]
    folder = ComparisonFolder(tmp_path / "out")
    freeze(folder, made)
    block = made.blocks[0]
    chat_server.Chat.down = 503  # the endpoint asks again and again
    said, seen = [], []
    (folder.block(block) / "vanilla").mkdir(parents=True)
    busy = WriterLock(folder.block(block) / "vanilla")  # somebody else writes there
    try:
        sitting = Sitting(
            folder, resolve(made), jobs=2 if len(os.sched_getaffinity(0)) > 1 else 1, seconds=10_000.0,
            say=said.append, on_progress=seen.append,
        )  # fmt: skip
        log = folder.block(block) / "cheap.log"

        def soon(progress):
            seen.append(progress)
            if sitting.failures and chat_server.Chat.asked:  # cheap has begun, and waits for the endpoint
                sitting.ends = 0.0

        sitting.on_progress = soon
        (failure,) = sitting.work()
    finally:
        busy.release()
    assert "another process is writing this run" in failure
    assert failure.startswith("digits8x8:0 vanilla: rewardrate: error: ")
    assert f"failed: {failure}" in said
    assert "the time of this sitting is over" in said
    assert "nterrupted" in log.read_text().splitlines()[-1]
    assert folder.notes(block)["cheap"]["ended"] is False
    assert seen[-1].complete == 0
    assert seen[-1].running[0][0] == "digits8x8:0 cheap"


def test_a_block_that_would_not_end_in_time_is_not_begun(plan, tmp_path):
    made = replace(plan[1], script_seconds=10_000.0)
    folder = ComparisonFolder(tmp_path / "out")
    freeze(folder, made)
    said = []
    assert Sitting(folder, resolve(made), seconds=1000.0, say=said.append).work() == []
    assert said == ["digits8x8:0 would not end in this sitting: not begun"]
    assert not folder.block(made.blocks[0]).exists()


@needs_a_box
def test_a_block_waits_for_the_pace_of_the_runs_before_it_is_given_up(plan, tmp_path):
    made = replace(plan[1], script_seconds=10_000.0)
    folder = ComparisonFolder(tmp_path / "out")
    sitting = Sitting(folder, freeze(folder, made)[""], jobs=1, seconds=1000.0)
    waiting = deque(made.blocks)
    sitting._begin(waiting)
    assert (list(waiting), sitting.running) == ([*made.blocks], []), "by the guess it would not end in time"
    for run in sitting.times.seen:
        sitting.times.seen[run] = (9_000.0, 900.0)  # 0.1 s for each of the 1,000 s that are left of each run
    try:
        sitting._begin(waiting)
        assert [one.name for one in sitting.running] == ["digits8x8:0 vanilla"]
        assert not waiting
    finally:
        sitting._end()


def test_a_block_that_was_begun_from_another_start_is_refused_before_anything_runs(plan, tmp_path):
    made = plan[1]
    folder = ComparisonFolder(tmp_path / "out")
    freeze(folder, made)
    note = {"plan": folder.state()["sha256"], "start": "b" * 64, "sittings": [], "ended": False}
    folder.note(made.blocks[0], "vanilla", note)
    RunLog.create(folder.run(made.blocks[0], "vanilla"), "", {}).close()
    with pytest.raises(InputError, match=r"vanilla of block digits8x8:0 was begun from b{25}") as refused:
        Sitting(folder, resolve(made)).work()
    assert str(folder.block(made.blocks[0])) in refused.value.remedy
    shutil.rmtree(folder.block(made.blocks[0]))
    RunLog.create(folder.run(made.blocks[0], "cheap"), "", {}).close()
    with pytest.raises(InputError, match="cheap of block digits8x8:0 was begun from a start that nobody noted"):
        Sitting(folder, resolve(made)).work()
    assert not list(tmp_path.glob("out/*/*.log"))


@needs_a_box
def test_a_run_that_never_began_binds_its_block_to_no_start(plan, tmp_path):
    """A start that was not there: the run failed before its first record, and the right one is taken up."""
    folder = ComparisonFolder(tmp_path / "out")
    recipe = freeze(folder, plan[1])[""]
    (block,) = plan[1].blocks
    sitting = {"began": "2099-01-01T00:00:00Z"}
    folder.note(block, "vanilla", {"plan": "old", "start": "name:gone", "sittings": [sitting], "ended": False})
    sitting = Sitting(folder, recipe, jobs=1)
    sitting._start()
    sitting._check_start(block)
    try:
        sitting._begin(deque([block]))
    finally:
        sitting._end()
    note = folder.notes(block)["vanilla"]
    assert (note["start"], note["plan"], len(note["sittings"])) == ("name:chatty", folder.state()["sha256"], 1)


def test_a_complete_block_of_another_machine_is_left_alone_whatever_its_start(tmp_path):
    folder = made_comparison.complete(tmp_path / "study", tasks=("digits8x8",), seeds=(0,))
    assert Sitting(folder, resolve(folder.plan())).work() == []
    (folder.path / "digits8x8-s0" / "block.json").unlink()
    assert Sitting(folder, resolve(folder.plan())).work() == []
    assert not list(folder.path.glob("*/*.log"))


def test_two_sittings_do_not_work_in_one_folder(plan, tmp_path):
    made = plan[1]
    folder = ComparisonFolder(tmp_path / "out")
    freeze(folder, made)
    lock = WriterLock(folder.path)
    try:
        with pytest.raises(InputError, match="another process"):
            Sitting(folder, resolve(made)).work()
    finally:
        lock.release()


def test_a_start_is_trained_once_and_known_by_its_weights(tmp_path):
    pytest.importorskip("transformers")
    small = ("steps=1", "batch_tokens=4096", "workers=0", "device=cpu", "stop_after=1", "keep=[]", "window=320")
    shape = ("shape.layers=1", "shape.width=32", "shape.hidden=32", "shape.heads=2", "shape.key_value_heads=1")
    start = PretrainedStart(settings=(*small, *shape, "shape.texts=100", "shape.vocabulary=400"))
    made = made_comparison.plan(start=start)
    folder = made_comparison.freeze(tmp_path / "out", made)
    said = []
    sitting = Sitting(folder, resolve(made), say=said.append)
    assert sitting.given == (f'policy.name="{tmp_path / "out" / "start"}"',)
    sitting._start()
    assert json.loads((folder.path / "start.json").read_text()) == {"sha256": sitting.digest}
    assert len(sitting.digest) == 64
    again = Sitting(folder, resolve(made), say=said.append)
    again._start()
    assert again.digest == sitting.digest
    assert len(said) == 1, "it is trained once"


def test_a_start_that_cannot_be_trained_is_one_line(tmp_path):
    made = made_comparison.plan(start=PretrainedStart(recipe="pretrain-strat"))
    folder = made_comparison.freeze(tmp_path / "out", made)
    with pytest.raises(InputError, match="did you mean 'pretrain-start'"):
        Sitting(folder, resolve(made))._start()
    assert not (folder.path / "start.json").exists()
