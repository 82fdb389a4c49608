"""Random results, statuses and file trees through verdict, grading, prompt, record and page: no exception, ever."""

import math
import os
import random
import sys

import pytest

from rewardrate.attempt import Parent, Proposal, RateEstimate
from rewardrate.environments.mle.environment import MachineLearning, Settings
from rewardrate.reports import page
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Limits, Pool, levels, runner
from rewardrate.sandbox.box.collect import collect
from rewardrate.sandbox.job import Job
from rewardrate.sandbox.supervisor import Report

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="openat2 is Linux's")
NAME = "submission.csv"
NUMBERS = [0, 1.0, -1.0, 0.1, 1e-300, 1e300, math.nan, math.inf, -math.inf, 2**63, -(2**70), None, "1", "nan", [], {}]
CELLS = [
    b"1",
    b"benign",
    b"nan",
    b"-inf",
    b"1e400",
    b"0x1p9",
    b'"',
    b'"a\nb"',
    b"\xff",
    b"",
    b" ",
    b"\x00",
    b"9" * 5000,
]
NAMES = [b"a", b"\xff\xfe", b"line\nfeed", b"...", b"x" * 255, b"data", b"-rf", b"\xf0\x9f\x98\x80"]
ODD = ["", "\0", "\ud800", "```\n<|end|>", "\x1b[2J", "x" * 9999, "Traceback (most recent call last):\n\ud800: \0"]


def submission(r, good):
    """Bytes that a script may have written: sound, almost sound, or anything."""
    lines = good.splitlines(keepends=True)
    for _ in range(r.choice([0, 0, 0, 1, 9])):
        place = r.randrange(len(lines))
        cells = lines[place].rstrip(b"\r\n").split(b",")
        cells[r.randrange(len(cells))] = r.choice(CELLS)
        lines[place] = b",".join(cells) + r.choice([b"\n", b"\r\n", b"\r", b"", b"\n\n"])
    header = (b"id" + b",a%d" * 20_000) % tuple(range(20_000))
    whole = b"".join(lines)
    return r.choice([*[whole] * 8, r.randbytes(300), header, b"", b"\xef\xbb\xbf" + whole, whole * 2])


def tree(r, folder, good):
    """A folder as a script may leave it: the submission, or something odd in its place, among other things."""
    for name in r.sample(NAMES, 3):
        path = os.fsencode(folder) + b"/" + name
        if r.random() < 0.5:
            os.mkdir(path, r.choice([0o700, 0o300, 0o0]))
        else:
            os.symlink(r.choice([b"submission.csv", b"/etc/passwd", b".", b"loop" * 60, name]), path)
    path = folder / NAME
    kind = r.randrange(9)
    if kind < 4:
        path.write_bytes(submission(r, good))
        path.chmod(r.choice([0o600, 0o444, 0o0]))
    elif kind == 4:
        os.mkfifo(path)
    elif kind == 5:
        path.mkdir()
    elif kind == 6:
        path.symlink_to(r.choice(["/etc/passwd", NAME, "a/../a", "/proc/self/environ"]))
    elif kind == 7:
        path.write_bytes(good)
        os.link(path, folder / "second")
    if kind == 8 or r.random() < 0.1:
        with (folder / "large").open("wb") as file:
            file.truncate(10**9)
        os.replace(folder / "large", path) if not path.is_dir() else None


def report(r, files, refused):
    """What an init may say of a script's end: mostly sound, with something odd now and then."""
    sound = {"verdict": "", "seconds": 1.0, "end": 0, "cpu_seconds": 0.5, "peak_memory_bytes": 1, "wait_seconds": 0.0}
    found = {**sound, "foreign_share": 0.0, "stragglers": 0, "gone": True, "refused": refused, "started": True}
    found["status"] = r.choice([*[0] * 8, 0x100, r.randrange(0x10000), 40, -1, "0"])
    found["verdict"] = r.choice([*[""] * 8, "timeout", "memory", "disk", "odd", None])
    for _ in range(r.choice([0, 0, 0, 0, 1, 3])):
        found[r.choice(list(found))] = r.choice(NUMBERS)
    if r.random() < 0.1:
        del found[r.choice(list(found))]
    made = Report(found, dict(files), stopped=r.choice([*[""] * 8, "output", "deadline"]))
    made.out.add(r.choice(ODD).encode("utf-8", "surrogatepass") + r.randbytes(r.choice([0, 99, 70_000])))
    made.err.add(r.choice(ODD).encode("utf-8", "surrogatepass") + r.randbytes(r.choice([0, 99])))
    return made


def ended(r, folder, good):
    """A random tree and report as the sandbox's result."""
    tree(r, folder, good)
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        files, refused = collect(place, [NAME], 2**20)
    finally:
        os.close(place)
    job = Job("pass", Limits(seconds=2.0), clock=r.choice([None, "wall", "cpu", "warm"]))
    made, level = report(r, files, refused), r.choice(levels.LEVELS)
    return runner._result(made, job, level, 1.0, 0, r.random() < 0.1, 10**9)


@pytest.mark.parametrize("count", [120, pytest.param(1_000, marks=pytest.mark.deep)])
def test_any_result_gets_a_verdict_a_prompt_and_its_place_on_the_page(task, tmp_path, count):
    good = (task.private / "test.csv").read_bytes()  # the answers
    with Pool() as pool:
        full, compact = (MachineLearning(task, pool, Settings(prompt=form)) for form in ("full", "compact"))
        outcomes = []
        for seed in range(count):
            r = random.Random(seed)
            (tmp_path / f"{seed}").mkdir()
            code = r.choice(ODD)
            outcomes.append(full.judge(code, ended(r, tmp_path / f"{seed}", good)))
            for environment in (full, compact):
                prompt = environment.prompt(Parent(outcomes[-1].code, outcomes[-1].message))
                assert all("\x1b" not in message["content"] for message in prompt if code != ODD[4]), seed
    assert {outcome.valid for outcome in outcomes} == {True, False}
    assert {one.status for one in outcomes} >= {"ok", "error", "killed", "memory", "timeout", "bad-submission"}
    assert not any(one.valid for one in outcomes if one.status != "ok")
    assert all(math.isfinite(one.reward) and one.seconds >= 0.1 for one in outcomes)
    with RunLog.create(tmp_path / "run", "", {"arm": "rpg", "task": task.id, "seed": "0"}) as log:
        log.begin_step(1, [Proposal(outcome.code) for outcome in outcomes])
        for place, outcome in enumerate(outcomes):
            log.outcome(1, place, outcome)
        log.commit_step(1, RateEstimate(1, 1, 1, 1, 1), [0.0] * len(outcomes), [0.0] * len(outcomes))
        assert [attempt.status for attempt in log.attempts(1)] == [outcome.status for outcome in outcomes]
    assert page.write(tmp_path / "run").stat().st_size > 10_000
