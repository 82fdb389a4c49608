"""A reader sees committed truth, also while the run is written."""

import json
import threading

import pytest

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.runlog import Origin, Recorded, RunLog

RATE = RateEstimate(0.5, 0.4, 0.3, 0.6, 2)


def step_of(log, step, rows=4, **more):
    log.begin_step(step, [Proposal(f"reply {step}.{row}") for row in range(rows)])
    for row in range(rows):
        log.outcome(step, row, Outcome(True, step + row / 10, 0.8, 1.0, "fine", "ok", "code"))
    log.commit_step(step, RATE, [0.1] * rows, [0.0] * rows, states={"rng": step}, **more)


def test_what_was_written_is_what_is_read(tmp_path):
    outcome = Outcome(
        False,
        0.0,
        None,
        2.5,
        "NameError",
        "error",
        "x = ä",
        "cpu",
        2.6,
        2.5,
        10**12,
        "limits",
        True,
        False,
        "\x00out",
        -7.5,
    )
    proposal = Proposal("r", (4,), (5, 6), (-0.5, -0.25), False, 0.25)
    chat = [{"role": "system", "content": "ä \ud800 \x00"}, {"role": "user", "content": "go"}]
    with RunLog.create(tmp_path / "run", "a = 1\n", {"seed": "7", "arm": "rpg"}) as log:
        step_of(log, 1)
        log.begin_step(2, [proposal], [Origin(chat, 3, "s")])
        log.outcome(2, 0, outcome)
        assert log.pending() == (Recorded(5, 0, 3, "s", proposal, outcome, chain=0, updates=1),)
        assert log.prompt(5) == chat
        log.commit_step(2, RATE, [None], [0.0], metrics={"kl": 0.5, "loss": float("nan")}, phases={"learn": 1.5})
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        assert log.about() == {"seed": "7", "arm": "rpg"}
        assert log.config_text() == "a = 1\n"
        attempt = log.attempt(5)
        assert log.attempts(2) == [attempt] == log.attempts()[4:]
        for name in ("valid", "reward", "score", "seconds", "status", "message", "code", "clock", "wall_seconds"):
            assert getattr(attempt, name) == getattr(outcome, name)
        assert (attempt.peak_memory_bytes, attempt.contaminated, attempt.trains) == (10**12, True, False)
        assert (attempt.output, attempt.parent, attempt.seed, attempt.tokens) == ("\x00out", 3, "s", 2)
        assert (attempt.rank_key, attempt.rank, log.attempt(1).rank_key, log.attempt(1).rank) == (-7.5, -7.5, None, 1.0)
        assert (log.prompt(5), log.prompt(1)) == (chat, [])
        assert json.loads(log.table("prompt")["prompt"][4]) == chat
        assert log.table("seed")["seed"] == ["", "", "", "", "s"]
        assert (attempt.relative_reward, attempt.bonus, attempt.generation_seconds) == (None, 0.0, 0.25)
        first, second = log.steps()
        assert (first.rate, first.script_seconds, second.script_seconds) == (RATE, 4.0, 6.5)
        assert (second.metrics, second.phases) == ({"kl": 0.5, "loss": None}, {"learn": 1.5})
        assert log.last_step() == 2


def test_columns_come_in_order_of_attempt_number(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log:
        step_of(log, 1)
        step_of(log, 2)
        table = log.table("id", "step", "row", "valid", "reward", "code")
        assert table["id"] == list(range(1, 9))
        assert (table["step"], table["row"]) == ([1] * 4 + [2] * 4, [0, 1, 2, 3] * 2)
        assert table["valid"] == [True] * 8
        assert table["code"] == ["code"] * 8
        with pytest.raises(InputError, match="did you mean 'seconds'"):
            log.table("second")
        with pytest.raises(InputError, match="name at least one"):
            log.table()
        with pytest.raises(InputError, match="no committed step"):
            log.attempt(9)
        with pytest.raises(InputError, match="no step of"):
            log.prompt(9)


def test_readers_see_whole_steps_while_the_writer_writes(tmp_path):
    log = RunLog.create(tmp_path / "run", "", {})
    seen, trouble, stop = set(), [], threading.Event()

    def watch():
        while not stop.is_set():
            with RunLog.open(tmp_path / "run", read_only=True) as reader, reader.snapshot():
                steps, attempts = reader.last_step(), len(reader.table("id")["id"])
                seen.add(steps)
                if attempts != 4 * steps:
                    trouble.append((steps, attempts))

    readers = [threading.Thread(target=watch) for _ in range(2)]
    for reader in readers:
        reader.start()
    for step in range(1, 41):
        step_of(log, step)
    stop.set()
    for reader in readers:
        reader.join()
    log.close()
    assert trouble == []
    assert len(seen) > 3


def test_a_snapshot_does_not_move(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log, RunLog.open(tmp_path / "run", read_only=True) as reader:
        step_of(log, 1)
        with reader.snapshot():
            assert reader.last_step() == 1
            step_of(log, 2)
            assert reader.last_step() == 1
        assert reader.last_step() == 2


def test_a_reader_cannot_write(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log:
        step_of(log, 1)
    with RunLog.open(tmp_path / "run", read_only=True) as reader:
        for write in (
            lambda: reader.begin_step(2, [Proposal("r")]),
            lambda: reader.note("a", "b"),
            reader.resume,
            lambda: reader.checkpoint(2, lambda path: None),
        ):
            with pytest.raises(InputError, match="opened for reading"):
                write()


def test_a_missing_config_is_reported(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log:
        (tmp_path / "run/config.toml").unlink()
        with pytest.raises(InputError, match=r"its config\.toml cannot be read"):
            log.config_text()
