"""Reading logs: what counts, and what only looks like it."""

import math
import random

import pytest

from recorded_logs import RECORDED, output
from rewardrate.environments.speedrun import logs
from rewardrate.environments.speedrun.logs import cadence_problem, read


def test_there_are_more_than_thirty_recorded_logs():
    assert len(RECORDED) >= 45


@pytest.mark.parametrize("name", [name for name, row in RECORDED.items() if row[2] == "valid"])
def test_what_counts_is_found_whatever_stands_around_it(name):
    log = read(output(name))
    assert log.problem == ""
    assert cadence_problem(log, 125, finished=True) == ""
    assert math.isclose(log.final.loss, 6.9 - log.final.step / 100)
    assert log.best_loss == log.final.loss


def test_a_record_names_step_total_loss_and_milliseconds():
    log = read(b"step:250/300 val_loss:4.4001 train_time:3250ms step_avg:13.00ms\n")
    assert log.final == logs.Validation(250, 300, 4.4001, 3250.0)
    assert log.last_trained == 0


def test_numbers_beyond_all_sense_are_no_records():
    assert read(b"step:1/1 val_loss:" + b"9" * 40 + b" train_time:1ms\n").validations == ()
    assert read(b"step:" + b"9" * 40 + b"/1 val_loss:1 train_time:1ms\n").validations == ()


def test_any_bytes_are_read_without_an_error():
    generator = random.Random(1)
    pieces = [b"step:", b"1/2", b" val_loss:", b"3.2", b" train_time:", b"5ms", b"\n", b"\x00\xff", b" ", b"[rank0]:"]
    for _ in range(500):
        log = read(b"".join(generator.choices(pieces, k=40)))
        cadence_problem(log, 125, finished=bool(generator.getrandbits(1)))


def test_parsing_stays_fast_on_hostile_lines():
    hostile = b"step:1/1 train_time:1ms " * 170 + b"!\n"
    assert read(hostile * 2000).validations == ()
