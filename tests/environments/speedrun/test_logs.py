"""Reading logs: what counts, and what only looks like it."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded_logs import RECORDED, output
from rewardrate.environments.speedrun import logs
from rewardrate.environments.speedrun.logs import cadence_problem, read


def test_there_are_more_than_thirty_recorded_logs():
    assert len(RECORDED) >= 45


@pytest.mark.parametrize("name", [name for name, row in RECORDED.items() if row[2] == "ok"])
def test_what_counts_is_found_whatever_stands_around_it(name):
    log = read(output(name))
    assert log.problem == ""
    assert cadence_problem(log, 125, finished=True) == ""
    assert math.isclose(log.final.loss, 6.9 - log.final.step / 100)


def test_a_record_names_step_total_loss_and_milliseconds():
    log = read(b"step:250/300 val_loss:4.4001 train_time:3250ms step_avg:13.00ms\n")
    assert log.final == logs.Validation(250, 300, 4.4001, 3250.0)
    assert log.last_trained == 0


def test_numbers_beyond_all_sense_are_no_records():
    assert read(b"step:1/1 val_loss:" + b"9" * 40 + b" train_time:1ms\n").validations == ()
    assert read(b"step:" + b"9" * 40 + b"/1 val_loss:1 train_time:1ms\n").validations == ()


GOOD = "step:0/300 val_loss:6.9000 train_time:0ms step_avg:nanms\n"
SECOND = "step:125/300 val_loss:5.6000 train_time:9ms step_avg:9.00ms\n"
BEYOND = "step:375/300 val_loss:3.1000 train_time:9ms step_avg:9.00ms\n"


@pytest.mark.parametrize("printed", ["-0.0000", "0.0000", "-0.0", "0", "-3.1", "nan", "inf", "-inf"])
def test_a_loss_is_a_finite_number_above_zero(printed):
    problem = read(GOOD.replace("6.9000", printed).encode()).problem
    assert f"it printed val_loss:{printed} at step 0" in problem


@pytest.mark.parametrize("line", [BEYOND, "step:301/300 train_time:9ms step_avg:9.00ms\n"])
@pytest.mark.parametrize("before", ["", GOOD, GOOD + SECOND])
def test_no_step_lies_beyond_the_total(before, line):
    assert "of 300: no step may lie beyond the total" in read((before + line).encode()).problem


@pytest.mark.parametrize("blank", [" ", "    ", "\t", "[rank0]:  ", " [rank0]:", "\x0b", "\x0c"])
def test_an_indented_line_is_no_record(blank):
    log = read((GOOD + blank + SECOND).encode())
    assert [line.step for line in log.validations] == [0]
    assert log.stray == 1


@pytest.mark.parametrize("bad", ["val_loss:5.6 or so", "val_loss:5.6e0", "val_loss: 5.6", "val_loss:+5.6", "val_loss:"])
def test_a_line_that_was_not_understood_is_quoted_where_a_validation_is_missing(bad):
    broken = f"step:125/250 {bad} train_time:9ms"
    text = GOOD + broken + "\nstep:250/250 val_loss:4.0000 train_time:9ms\n"
    problem = cadence_problem(read(text.encode()), 125, finished=True)
    assert problem.startswith("there is a validation at step 250, and one was due at step 125; 1 lines mention")
    assert repr(broken) in problem


PARTS = (
    b"step:,1/2,125/300,0/0, val_loss:,3.2,-0,nan,inf, train_time:,5ms, step_avg:,[rank0]:,\n,\r,\t, ,\x00\xff,\xd9\xa0"
)
PIECES = st.sampled_from([GOOD.encode(), b"9" * 13, *PARTS.split(b",")])
LINES = st.builds(
    "step:{}/{} val_loss:{} train_time:1ms\n".format,
    st.integers(-3, 400),
    st.integers(0, 400),
    st.sampled_from(["3.2", "-0.0", "0", "nan", "7", "x"]),
).map(str.encode)


@given(st.lists(st.one_of(PIECES, LINES, st.binary(max_size=9)), max_size=40).map(b"".join), st.integers(1, 200))
def test_any_bytes_are_read_without_an_error_and_what_is_believed_makes_sense(output, cadence):
    log = read(output)
    steps = [line.step for line in log.validations]
    assert steps == sorted(set(steps))
    if not log.problem:
        assert all(math.isfinite(line.loss) and line.loss > 0 for line in log.validations)
        assert all(line.step <= line.steps for line in log.validations)
    if not cadence_problem(log, cadence, finished=True):
        assert steps == [*range(0, steps[-1], cadence), steps[-1]]
        assert log.last_trained <= steps[-1]
    assert cadence_problem(log, cadence, finished=False).isprintable()


def test_parsing_stays_fast_on_hostile_lines():
    hostile = b"step:1/1 train_time:1ms " * 170 + b"!\n"
    assert read(hostile * 2000).validations == ()


def test_a_log_of_nothing_but_lines_is_read_soon_and_one_of_nothing_but_losses_is_refused():
    """Of the 64 MB that are read; processor time."""
    start = time.process_time()
    assert read(b"a\n" * (4 << 20)) == logs.Log((), 0, 0)
    assert time.process_time() - start < 2, "a fifth of a second; line by line it is one and a half"
    said = b"\r\n\nx val_loss:1" * (logs.MOST_LINES + 2)
    assert read(said).stray == logs.MOST_LINES
    assert "more than 300,000 lines" in read(said).problem
    assert read(b"\r\nx\r" + GOOD.encode() + b"val_loss:\r\n\n" + SECOND.encode()).final.step == 125
