"""A measurement says when it cannot be trusted."""

import dataclasses

from rewardrate.sandbox import Result

CLEAN = Result("ok", 2.0, 2.0, 1, "", "", {})


def test_waiting_or_foreign_work_beyond_five_per_cent_is_contamination():
    assert not CLEAN.contaminated
    assert dataclasses.replace(CLEAN, foreign_share=0.06).contaminated
    assert dataclasses.replace(CLEAN, wait_seconds=0.2).contaminated
    assert not dataclasses.replace(CLEAN, wait_seconds=0.05).contaminated


def test_each_clock_prices_its_own_seconds_and_a_timeout_costs_the_limit_by_all():
    run = Result("ok", 2.0, 0.5, 1, "", "", {})
    assert [dataclasses.replace(run, clock=clock).priced_seconds for clock in ("wall", "cpu", "warm")] == [
        2.0,
        0.5,
        2.0,
    ]
    assert dataclasses.replace(run, clock="cpu", status="timeout").priced_seconds == 2.0
    assert (run.clock, run.runs) == ("wall", 1)


def test_contamination_is_the_worse_of_the_two_shares():
    assert dataclasses.replace(CLEAN, foreign_share=0.3, wait_seconds=0.2).contamination == 0.3
    assert dataclasses.replace(CLEAN, foreign_share=0.01, wait_seconds=0.2).contamination == 0.1
