"""Hours and machines: the arithmetic against a list of scripts that is handed out by hand, and the page's own table."""

import dataclasses
import heapq
import random
import re
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.training.machines import Machines, StudySize, need

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()
SMALL = StudySize(
    script_seconds=25, runs=4, steps=36, attempts=8, limit_seconds=100, reply_tokens=100, prompt_tokens=400
)


def handed_out(seconds, slots):
    """When the last of these scripts has ended, each given to the first slot that is free."""
    free = [0.0] * slots
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 16])
def test_scripts_that_are_handed_out_take_no_less_and_no_more_than_said(slots):
    dice = random.Random(slots)
    for _ in range(200):
        seconds = [dice.uniform(0.1, 60) for _ in range(15)] + [100.0]  # one runs into the limit
        dice.shuffle(seconds)
        study = dataclasses.replace(SMALL, script_seconds=sum(seconds) / 16, attempts=16)
        low, high = need(study, Machines(cores=slots, busy=1.0), 1e6).execute
        assert low - 1e-9 <= handed_out(seconds, slots) <= high + 1e-9


def test_phases_of_a_step_add_up_and_runs_go_side_by_side_as_far_as_the_hours_ask_for():
    machines = Machines(cores=4, gpus=2, drawn_per_second=80, learnt_per_second=1000, busy=1.0)
    found = need(SMALL, machines, hours=3)
    assert (found.propose, found.learn) == (10.0, 4.0)
    assert found.execute == (100.0, 8 * 25 / 4 + 0.75 * 100)
    assert found.run_hours == pytest.approx((36 * (10 + 100 + 4) / 3600, 36 * (10 + 125 + 4) / 3600))
    assert found.core_hours == pytest.approx(4 * 36 * 8 * 25 / 3600)
    assert (found.side_by_side, found.gpus, found.cores) == (2, 4, 8), "two runs fit one after the other"
    assert need(SMALL, machines, hours=1.5).side_by_side == 4


def test_what_was_not_measured_is_left_out_and_more_slots_than_scripts_are_of_no_use():
    found = need(SMALL, Machines(cores=64, busy=1.0), hours=10)
    assert (found.propose, found.learn, found.execute) == (0.0, 0.0, (100.0, 100.0))


def test_hours_that_no_number_of_machines_can_keep_are_refused_with_what_would_help():
    with pytest.raises(InputError, match=r"hours = 0.5: one run alone takes up to 1 hours; more cores for a run"):
        need(SMALL, Machines(cores=8), hours=0.5)
    with pytest.raises(InputError, match=r"machines.cores = 1: a script of this study takes 2"):
        need(dataclasses.replace(SMALL, cores_per_script=2), Machines(cores=1), hours=10)
    with pytest.raises(InputError, match=r"script_seconds = 700: .* at most the limit of 600 s"):
        StudySize(script_seconds=700)


def test_the_table_of_the_page_is_what_the_code_says():
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.+) \| (.+) \| (.+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for seconds, cores, execute, run, core_hours, side_by_side, gpus, all_cores in rows:
        machines = Machines(int(cores), gpus=2, learnt_per_second=11_316)
        found = need(StudySize(script_seconds=float(seconds)), machines, hours=24 * 14)
        assert execute == "{:.0f} to {:.0f}".format(*found.execute)
        assert run == "{:.0f} to {:.0f}".format(*found.run_hours)
        assert core_hours == f"{found.core_hours:,.0f}"
        assert [int(side_by_side), int(gpus), int(all_cores)] == [found.side_by_side, found.gpus, found.cores]
