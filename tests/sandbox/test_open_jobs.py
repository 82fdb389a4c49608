"""A queue that stays open: every job is taken once, whoever takes, and cancelling wakes all who wait."""

import threading

import pytest

from rewardrate.sandbox import Job
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.stop import Stopped

JOB = Job("pass")


def test_jobs_are_numbered_and_taken_in_order_and_the_end_is_said_once_all_are_taken():
    jobs = OpenJobs([JOB])
    assert jobs.put(Job("print(1)")) == 1
    jobs.end()
    assert jobs.first() == JOB
    assert [jobs.take(), jobs.take(), jobs.take()] == [(0, JOB), (1, Job("print(1)")), None]
    assert jobs.over
    with pytest.raises(Stopped):
        jobs.put(JOB)


def test_nobody_waits_for_a_job_that_is_not_asked_to():
    jobs = OpenJobs()
    assert jobs.take(wait=False) is None
    assert not jobs.over


@pytest.mark.parametrize("how", ["end", "cancel"])
def test_those_who_wait_are_woken(how):
    jobs, found = OpenJobs(), []
    threads = [threading.Thread(target=lambda: found.append(jobs.take())) for _ in range(3)]
    for thread in threads:
        thread.start()
    getattr(jobs, how)()
    for thread in threads:
        thread.join(60)
    assert found == [None] * 3


def test_cancelling_drops_what_waits_and_tells_the_executor_even_if_it_asks_late():
    jobs, told = OpenJobs([JOB, JOB]), []
    jobs.cancel()
    jobs.when_cancelled(lambda: told.append("late"))
    jobs.cancel()
    assert jobs.over
    assert jobs.take() is None
    assert told == ["late", "late"]


def test_every_job_is_taken_exactly_once_by_many_threads():
    jobs, taken = OpenJobs(), []

    def work():
        while (job := jobs.take()) is not None:
            taken.append(job[0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(500):
        jobs.put(JOB)
    jobs.end()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(500))


def test_use_is_counted_from_taking_to_done():
    jobs = OpenJobs([JOB, JOB])
    assert jobs.usage() == (0.0, 0)
    jobs.take()
    jobs.take()
    busy, most = jobs.usage()
    assert most == 2
    jobs.done(0)
    jobs.done(0)
    jobs.done(1)
    later = jobs.usage()[0]
    assert later >= busy >= 0
    assert jobs.usage() == (later, 2)


def test_a_job_that_was_taken_without_a_place_uses_none_until_it_has_begun():
    jobs = OpenJobs([JOB, JOB])
    jobs.take()
    jobs.take(runs=False)
    assert jobs.usage()[1] == 1
    jobs.done(0)
    jobs.began(1)
    jobs.began(1)
    assert jobs.usage()[1] == 1
    jobs.done(1)
    assert jobs.usage()[0] == jobs.usage()[0]
