"""A pool keeps the order, the cores and the machine: nothing is lost, shared or left behind."""

import contextlib
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Job, Limits, Pool, Result, cores, levels, run, supervisor
from rewardrate.sandbox.box import tree
from rewardrate.sandbox.limits import MIB
from rewardrate.sandbox.pool import _quality

SMALL = Limits(seconds=20, memory_bytes=256 * MIB, cores=1, disk_bytes=16 * MIB)
PATIENCE_SECONDS = 300.0  # for a first box: another test may own the cores


@pytest.fixture(autouse=True)
def needs_namespaces():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")


def living(mark):
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            count += f"MARK={mark}".encode() in path.read_bytes()
    return count


def started(mark):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not living(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return living(mark) > 0


@contextlib.contextmanager
def child_of_ours(code, **options):
    """A process that runs `code`, with Control-C as in a terminal whoever started us, and gone at the end."""
    code = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    child = subprocess.Popen([sys.executable, "-c", code], **options)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def gone(mark, patience=60.0):
    deadline = time.monotonic() + patience
    while living(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return living(mark) == 0


def test_results_come_in_the_order_of_the_jobs_and_are_reported_as_they_end():
    pauses = [0.6, 0.0, 0.3, 0.0]
    jobs = [Job(f"import time; time.sleep({p}); print({i})", SMALL) for i, p in enumerate(pauses)]
    told = {}
    with Pool() as pool:
        executor: Executor = pool
        results = executor.run(
            jobs, on_done=lambda index, result: told.update({index: (result, threading.get_ident())})
        )
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(4)]
    assert {index: result for index, (result, _) in told.items()} == dict(enumerate(results))
    assert {thread for _, thread in told.values()} == {threading.get_ident()}
    assert all(result.clock == "wall" and result.priced_seconds == result.seconds for result in results)


def test_an_empty_queue_has_no_results():
    with Pool() as pool:
        assert pool.run([]) == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Pool(0), "slots = 0"),
        (lambda: Pool(repeats=-1), "repeats = -1"),
        (lambda: Pool(clock="wal"), "did you mean 'wall'"),
        (lambda: Pool(warm_imports=["os; x"]), "name of a module"),
        (lambda: Pool().run([Job("pass", SMALL, clock="cpu")]), "prices every job by wall"),
        (lambda: Pool().run(["pass"]), "list of jobs"),
        (lambda: Pool().run([Job("pass", SMALL), Job("pass", Limits(cores=10_000))]), "cores = 10000"),
        (lambda: Pool().run([Job("pass", SMALL, data={"x": "/nonexistent"})]), "no such file"),
        (lambda: Pool().run([Job("pass", SMALL, level="limits")]), "which lacks"),
    ],
)
def test_mistakes_are_refused_before_anything_starts(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_the_cpu_clock_prices_cpu_and_charges_a_timeout_the_limit():
    short = dataclasses.replace(SMALL, seconds=1)
    with Pool(clock="cpu", repeats=0) as pool:
        asleep, late = pool.run([Job("import time; time.sleep(0.6)", SMALL), Job("import time; time.sleep(9)", short)])
    assert asleep.priced_seconds == asleep.cpu_seconds < 0.6 <= asleep.seconds
    assert (late.status, late.priced_seconds) == ("timeout", 1)


@pytest.mark.usefixtures("in_turn", "busy_cores")
def test_a_disturbed_measurement_is_repeated_and_the_result_says_how_often():
    with Pool(repeats=2) as pool:
        (result,) = pool.run([Job("import time\nwhile time.process_time() < 0.5: pass", SMALL)])
    assert result.contaminated
    assert result.runs == 3


def test_the_least_disturbed_then_the_fastest_run_is_kept_and_a_failure_of_ours_never_is():
    clean = Result("ok", 2.0, 2.0, 1, "", "", {})
    slower = dataclasses.replace(clean, seconds=3.0)
    disturbed = dataclasses.replace(clean, seconds=1.0, foreign_share=0.5)
    failed = Result("sandbox-failure", 0.0, 0.0, 0, "", "", {})
    assert min([failed, disturbed, slower, clean], key=_quality) is clean
    assert min([failed, disturbed], key=_quality) is disturbed


def test_a_poisoned_job_is_a_result_and_the_others_go_on():
    poison = [
        "import os; os.kill(os.getpid(), 40)",
        "import os; os.kill(os.getpid(), 63)",
        "import os; os.kill(-1, 35)",
    ]
    with Pool(repeats=0) as pool:
        *bad, good = pool.run([*(Job(script, SMALL) for script in poison), Job("print(3)", SMALL)])
    assert [result.status for result in bad] == ["killed", "killed", "error"]
    assert good.stdout == "3\n"


def test_a_job_that_we_fail_at_does_not_end_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))  # only this level needs a folder there
    jobs = [Job("print(1)", SMALL, level="limits", minimum="limits"), Job("print(2)", SMALL)]
    with Pool(repeats=0) as pool:
        failed, good = pool.run(jobs)
    assert (failed.status, good.stdout) == ("sandbox-failure", "2\n")
    assert "nowhere" in failed.message
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", "soon")  # no error of the system's, but a mistake
    with Pool(repeats=0) as pool:
        (failed,) = pool.run([Job("print(1)", SMALL)])
    assert failed.status == "sandbox-failure"
    assert "TypeError" in failed.message


def test_an_exception_in_the_callers_code_ends_every_box_at_once():
    mark = f"pool-{os.getpid()}-{time.monotonic_ns()}"
    long = dataclasses.replace(SMALL, seconds=120)
    jobs = [Job("pass", SMALL), *[Job("import time; time.sleep(100)", long, environment={"MARK": mark})] * 3]

    raised = []

    def fail(index, result):
        assert started(mark)
        raised.append(time.monotonic())
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"), Pool() as pool:
        pool.run(jobs, on_done=fail)
    assert time.monotonic() - raised[0] < 60, "the scripts sleep for 100 s"
    assert living(mark) == 0


def test_an_interrupt_ends_every_box_at_once():
    mark = f"pool-{os.getpid()}-{time.monotonic_ns()}"
    code = (
        "from rewardrate.sandbox import Job, Limits, Pool\n"
        f"job = Job('import time; time.sleep(100)', Limits(seconds=120, cores=1, memory_bytes=2**28), environment={{'MARK': {mark!r}}})\n"
        "try:\n    with Pool() as pool: pool.run([job] * 5)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    with child_of_ours(code, stdout=subprocess.PIPE, text=True) as child:
        assert started(mark), "no script ever started"
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=90)[0] == "interrupted\n"
        assert time.monotonic() - start < 60, "the scripts sleep for 100 s"
    assert gone(mark)


def test_a_pool_whose_process_is_killed_leaves_nothing_behind():
    mark = f"pool-{os.getpid()}-{time.monotonic_ns()}"
    code = (
        "from rewardrate.sandbox import Job, Limits, Pool\n"
        "script = 'import os, time\\nos.fork()\\nos.setsid() if os.getpid() != 2 else None\\ntime.sleep(300)'\n"
        f"job = Job(script, Limits(seconds=300, cores=1, memory_bytes=2**28), environment={{'MARK': {mark!r}}})\n"
        "Pool().run([job] * 5)\n"
    )
    with child_of_ours(code) as child:
        assert started(mark), "no script ever started"
        launchers = [p for p in tree.descendants(child.pid) if "launcher" in command(p)]
        child.kill()
        child.wait()
        assert gone(mark)
    assert launchers
    deadline = time.monotonic() + 60
    while any("launcher" in command(p) for p in launchers):
        assert time.monotonic() < deadline, "a launcher lives on"
        time.sleep(0.02)


def command(process):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().decode()
    return ""


WHERE = "import os, time\nstart = time.monotonic()\ntime.sleep(0.05)\nprint(*os.sched_getaffinity(0), start, time.monotonic())"


def test_pools_of_several_processes_never_share_a_core():
    code = (
        "from rewardrate.sandbox import Job, Limits, Pool\n"
        f"jobs = [Job({WHERE!r}, Limits(seconds=20, cores=1, memory_bytes=2**28))] * 12\n"
        "for result in Pool(repeats=0).run(jobs): print(result.stdout, end='')\n"
    )
    told = {"stdout": subprocess.PIPE, "text": True}
    with child_of_ours(code, **told) as one, child_of_ours(code, **told) as two:
        found = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in (one, two)]
    lines = "".join(found).splitlines()
    assert len(lines) == 24
    used = sorted((int(core), float(start), float(end)) for core, start, end in map(str.split, lines))
    for (core, _, end), (other, start, _) in itertools.pairwise(used):
        assert core != other or end <= start


def test_a_job_of_many_cores_is_not_starved_by_those_of_one():
    everything = dataclasses.replace(SMALL, cores=len(cores.usable()))
    ended = []
    jobs = [Job("import time; time.sleep(0.1)", SMALL)] * 3 + [Job("pass", everything)]
    jobs += [Job("import time; time.sleep(0.1)", SMALL)] * 6
    with Pool(repeats=0) as pool:
        pool.run(jobs, on_done=lambda index, _: ended.append(index))
    assert ended.index(3) <= 4


def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.deep)])
def test_many_short_scripts_leak_no_descriptor_process_memory_mount_group_or_disk(tmp_path, monkeypatch, count):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    job = Job("open('x', 'w').write('y' * 1000)", SMALL, files={"a": b"b" * 10_000}, collect=["x"])
    with Pool(repeats=0) as pool:
        pool.run([job] * 50)
        launcher = [p for p in tree.descendants(os.getpid()) if "launcher" in command(p)]
        before = state(launcher)
        memory = rss()
        results = pool.run([job] * count)
        assert {(result.status, result.files["x"]) for result in results} == {("ok", b"y" * 1000)}
        del results
        assert state(launcher) == before
        assert rss() - memory < 16 * MIB
    assert run("pass", SMALL, level="limits", minimum="limits").status == "ok"
    assert list(tmp_path.iterdir()) == []


def state(launcher):
    """Everything that must not grow."""
    deadline = time.monotonic() + 60
    while len(tree.descendants(os.getpid())) > len(launcher) and time.monotonic() < deadline:
        time.sleep(0.05)  # the launcher reaps at its leisure
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "launcher's": [len(os.listdir(f"/proc/{process}/fd")) for process in launcher],
        "threads": threading.active_count(),
        "processes": len(tree.descendants(os.getpid())),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "groups": len(list(Path("/sys/fs/cgroup").glob(f"**/rewardrate-{os.getpid()}-*"))),
    }
