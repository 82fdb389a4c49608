"""One open stream for many callers: each gets its own results, and closing leaves nobody waiting."""

import contextlib
import threading
import time

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Job, Limits, Pool
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.sandbox.shared_executor import SharedExecutor
from rewardrate.sandbox.stop import Stopped

LIMITS = Limits(seconds=60, cores=1, memory_bytes=2**28)


def job(script):
    return Job(script, LIMITS)


def test_callers_in_many_threads_get_their_own_results():
    found = {}

    def call(name):
        found[name] = [result.stdout.strip() for result in shared.run([job(f"print({name})"), job(f"print(-{name})")])]

    with Pool() as pool, SharedExecutor(pool) as shared:
        threads = [threading.Thread(target=call, args=(name,)) for name in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        busy, most = shared.usage()
    assert found == {name: [str(name), str(-name)] for name in range(1, 5)}
    assert busy > 0
    assert 1 <= most <= 8


def test_no_more_jobs_count_as_running_at_once_than_there_are_slots():
    """Idle slots are reckoned from it: a slot that takes its next job has done with the one before."""
    with Pool(1, repeats=0) as pool, SharedExecutor(pool) as shared:
        shared.run([job("pass")] * 12)
        assert shared.usage()[1] == 1


def test_a_job_put_in_late_runs_while_an_earlier_one_still_does_and_closing_ends_what_runs():
    ended, waited = [], []

    def call():
        with contextlib.suppress(Stopped):
            shared.run([job("import time; time.sleep(50)")])
            waited.append("not ended")

    with Pool(1) as pool:
        with SharedExecutor(pool) as shared:
            ended += shared.run([job("print('first')")])
            thread = threading.Thread(target=call)
            thread.start()
            while shared.usage()[1] < 1 or not shared.usage()[0]:
                time.sleep(0.01)
        thread.join(60)
        assert not thread.is_alive()
        assert waited == []
        assert pool.run([job("print('after')")])[0].status == "ok", "the pool itself is still open"
    assert ended[0].stdout.strip() == "first"
    with pytest.raises(Stopped):
        shared.run([job("pass")])


def test_a_failure_of_the_executor_reaches_everybody_who_waits():
    class Broken(Pool):
        def stream(self, jobs):
            jobs.take()
            raise OSError("the disk is gone")
            yield

    with SharedExecutor(Broken()) as shared:
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                shared.run([job("pass")])


def test_an_executor_that_takes_all_jobs_at_once_is_refused_with_the_remedy():
    class Closed(Executor):
        def stream(self, jobs):
            yield from ()

    with pytest.raises(InputError, match=r'Closed takes all jobs at once.*schedule = "step"'):
        SharedExecutor(Closed())
    with Pool() as pool, SharedExecutor(pool) as shared, pytest.raises(InputError, match="one open stream already"):
        shared.stream(OpenJobs())
