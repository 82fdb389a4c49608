"""A process killed at random moments, again and again: no attempt lost, none twice, the same record in the end."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from rewardrate.runlog import RunLog

KILLS = 32
STEPS, ROWS, THREADS = 12, 6, 3

# A whole trainer in miniature, as a user of the run log would write it. The policy is a number that every reward
# moves; what it proposes depends on that number and on the parent; outcomes are a function of the proposal alone.
TRAINER = """
import hashlib, json, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.runlog import Origin, RunLog

folder, steps, rows, threads, every, fatal = Path(sys.argv[1]), *map(int, sys.argv[2:])
executed = os.open(folder.with_suffix(".executed"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
if fatal:  # die at that file operation of ours
    until = fatal
    def count(event, arguments):
        global until
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "sqlite3.connect"):
            until -= 1
            if until == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)

def number(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

def propose(policy, best, step):
    origin = Origin([{"role": "user", "content": f"improve {best}"}], best[1] if best else None, "" if best else "old")
    return [Proposal(f"script {number(f'{policy} {best} {step} {row}') % 50}", (row,), (row, policy % 2**31),
                     (-0.5, -1 / (1 + row)), True, 0.5) for row in range(rows)], [origin] * rows

def execute(step, row, attempt, proposal):
    os.write(executed, f"{attempt}\\n".encode())
    luck = number(proposal.text) % 1000 / 1000
    seconds = 0.1 + number(proposal.text + "s") % 100 / 10
    reward = luck if luck > 0.2 else 0.0
    return Outcome(luck > 0.2, reward, luck, seconds, f"scored {luck}", "ok", proposal.text * 50,
                   rank_key=luck - seconds)

log = RunLog.open(folder) if RunLog.exists(folder) else RunLog.create(folder, "batch = 6\\n", {"seed": "0"})
resumed = log.resume()
policy, best, total = (resumed.states or {"policy": [1, None, 0.0]})["policy"]
if resumed.checkpoint:
    assert json.loads((resumed.checkpoint / "weights.json").read_text()) == policy
for step in range(resumed.step + 1, steps + 1):
    known = resumed.recorded.get(step)
    if known:
        numbers, proposals = [row.attempt for row in known], [row.proposal for row in known]
        outcomes = [row.outcome for row in known]
    else:
        (proposals, origins), outcomes = propose(policy, best, step), [None] * rows
        numbers = log.begin_step(step, proposals, origins)
    def work(row):
        outcomes[row] = execute(step, row, numbers[row], proposals[row])
        log.outcome(step, row, outcomes[row])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [row for row in range(rows) if outcomes[row] is None]))
    total += sum(outcome.seconds for outcome in outcomes)
    rate = sum(outcome.reward for outcome in outcomes) / total
    left = [outcome.reward - rate * outcome.seconds for outcome in outcomes]
    best = min([[-outcome.reward, attempt] for outcome, attempt in zip(outcomes, numbers)] + ([best] if best else []))
    for proposal, value in zip(proposals, left):
        policy = number(f"{policy} {proposal.reply_tokens} {proposal.logprobs} {value!r}")
    states, name = None, None
    if step % every == 0:
        states = {"policy": [policy, best, total], "buffer": {"best": best}}
        name = log.checkpoint(step, lambda path: (path / "weights.json").write_text(json.dumps(policy)))
    log.commit_step(step, RateEstimate(rate, rate, 0.0, 1.0, step * rows), left, [0.5] * rows,
                    metrics={"policy": policy}, states=states, checkpoint=name)
log.close()
"""


def start(folder, every, fatal=0):
    arguments = [str(folder), *map(str, (STEPS, ROWS, THREADS, every, fatal))]
    return subprocess.Popen([sys.executable, "-c", TRAINER, *arguments], stderr=subprocess.PIPE, text=True)


def record(folder):
    """Everything a run left behind, but for the clock on the wall."""
    db = sqlite3.connect(folder / "run.sqlite")
    db.row_factory = sqlite3.Row
    found = {}
    for table in ("about", "attempts", "pending", "steps", "states"):
        rows = [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]
        found[table] = [{name: row[name] for name in row if name != "finished"} for row in rows]
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()
    found["files"] = {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("run.sqlite", "run.lock")
    }
    return found


def test_a_run_killed_at_random_moments_leaves_the_record_of_one_that_was_not(tmp_path):
    rng = random.Random(4)
    lives = Counter()
    run = 0
    while lives["killed"] < KILLS:
        run += 1
        every = 1 + run % 3  # a checkpoint at every step, every second, every third
        calm, folder = tmp_path / f"calm{run}", tmp_path / f"killed{run}"
        begun = time.monotonic()
        process = start(calm, every)
        assert (process.communicate(timeout=600)[1], process.returncode) == ("", 0)
        whole = time.monotonic() - begun
        while True:
            by_count = rng.random() < 0.4
            process = start(folder, every, rng.randrange(1, 60) if by_count else 0)
            patience = whole * (1 + lives["here"] / 10)  # a machine may be busier now than it was for the calm run
            timer = threading.Timer(rng.uniform(0.2, 1.1) * patience, process.send_signal, (signal.SIGKILL,))
            timer.start()
            complaint = process.communicate(timeout=600)[1]
            timer.cancel()
            assert complaint == ""
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL
            lives["killed"] += 1
            lives["here"] += 1
            assert lives["here"] < 200, "it does not get on"
        assert record(folder) == record(calm)
        executed = Counter((folder.with_suffix(".executed")).read_text().split())
        assert set(executed) == {str(number) for number in range(1, STEPS * ROWS + 1)}
        again = executed.total() - STEPS * ROWS
        assert again <= THREADS * lives["here"], "only what was in the air when it died is executed again"
        lives["here"] = 0


def test_readers_never_stumble_over_a_run_that_is_killed(tmp_path):
    folder = tmp_path / "run"
    seen = [0]
    for life in range(1, 6):
        process = start(folder, 2)
        while process.poll() is None:
            if RunLog.exists(folder):
                with RunLog.open(folder, read_only=True) as log, log.snapshot():
                    steps = log.last_step()
                    assert len(log.table("id")["id"]) == ROWS * steps
                    assert len(log.pending()) in (0, ROWS)
                    seen.append(steps)
            if seen[-1] >= 2 * life:
                process.kill()
        assert process.communicate()[1] == ""
    assert seen == sorted(seen), "no step is ever taken back"
    assert seen[-1] >= 10


def test_a_second_trainer_of_the_same_folder_is_refused_while_the_first_lives(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log:
        process = start(log.folder, 1)
        complaint = process.communicate(timeout=600)[1]
    assert f"another process is writing this run (process {os.getpid()})" in complaint


def test_a_trainer_that_dies_while_making_the_folder_can_make_it_again(tmp_path):
    for fatal in range(1, 12):
        folder = tmp_path / f"run{fatal}"
        process = start(folder, 1, fatal)
        process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL
        if not RunLog.exists(folder):
            RunLog.create(folder, "again = 1\n", {}).close()
        with RunLog.open(folder) as log:
            assert log.config_text() in ("again = 1\n", "batch = 6\n")


@pytest.mark.parametrize("every", [1, 3])
def test_a_run_that_is_never_killed_keeps_two_checkpoints(tmp_path, every):
    process = start(tmp_path / "run", every)
    assert (process.communicate(timeout=600)[1], process.returncode) == ("", 0)
    names = sorted(path.name for path in (tmp_path / "run/checkpoints").iterdir())
    assert names == [f"step-{STEPS - every:06d}", f"step-{STEPS:06d}"]
