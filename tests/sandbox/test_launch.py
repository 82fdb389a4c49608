"""The launcher is quick, replaceable, bound to its parent's life, and never needed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits, launch, levels, run
from rewardrate.sandbox.launch import PATH, Launcher, Launchers, LaunchFailure, LaunchRefused
from rewardrate.sandbox.runner import run_job

SMALL = Limits(seconds=20, memory_bytes=2**28, cores=1)
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the box is Linux's")


@pytest.fixture
def owner():
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    launchers = Launchers()
    yield launchers
    launchers.close()


def exists(process):
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    return False


def wait_until(condition, patience=60.0):
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_one_launcher_serves_many_boxes_and_ends_with_its_owner(owner):
    for _ in range(3):
        assert run_job(Job("pass", SMALL), launchers=owner).status == "ok"
    (process,) = owner.processes()
    owner.close()
    assert not exists(process)


def test_a_launcher_knows_nothing_of_our_environment(owner, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "x")
    run_job(Job("pass", SMALL), launchers=owner)
    (process,) = owner.processes()
    assert Path(f"/proc/{process}/environ").read_bytes() == b"PATH=/usr/bin:/bin\0"


def test_a_launcher_that_died_is_replaced(owner):
    run_job(Job("pass", SMALL), launchers=owner)
    (first,) = owner.processes()
    os.kill(first, signal.SIGKILL)
    assert run_job(Job("pass", SMALL), launchers=owner).status == "ok"
    assert owner.processes() - {first}


def test_a_launcher_that_dies_under_a_script_costs_the_script_nothing(owner):
    results = []
    script = "import time; time.sleep(0.5); print('done')"
    thread = threading.Thread(target=lambda: results.append(run_job(Job(script, SMALL), launchers=owner)))
    thread.start()
    assert wait_until(owner.processes)
    time.sleep(0.25)
    os.kill(next(iter(owner.processes())), signal.SIGKILL)
    thread.join()
    assert (results[0].status, results[0].stdout) == ("ok", "done\n"), results[0]


def test_a_launcher_that_hangs_is_given_up(owner, monkeypatch):
    monkeypatch.setattr(launch, "REPLY_SECONDS", 2.0)
    run_job(Job("pass", SMALL), launchers=owner)
    (first,) = owner.processes()
    os.kill(first, signal.SIGSTOP)
    assert run_job(Job("pass", SMALL), launchers=owner).status == "ok"
    assert not exists(first)


def test_without_a_launcher_boxes_start_as_before(owner, monkeypatch):
    monkeypatch.setattr(launch, "SERVE", "raise SystemExit('not here')")
    for _ in range(3):
        result = run_job(Job("print('here')", SMALL), launchers=owner)
        assert (result.status, result.stdout) == ("ok", "here\n")
    assert owner.processes() == set()
    with pytest.raises(LaunchFailure, match="not here"):
        Launcher(sys.executable, PATH)
    with pytest.raises(LaunchFailure, match="could not be started"):
        Launcher("/nonexistent/python", PATH)


def test_a_launcher_refuses_what_it_cannot_do_and_lives_on():
    launcher = Launcher(sys.executable, PATH)
    try:
        with pytest.raises(LaunchRefused):
            launcher.fork([0])
        assert launcher.alive()
    finally:
        launcher.close()


def test_threads_of_one_process_share_a_launcher(owner):
    results = {}

    def work(n):
        for i in range(4):
            results[n, i] = run_job(Job(f"print({n}, {i})", SMALL), launchers=owner).stdout

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {(n, i): f"{n} {i}\n" for n in range(4) for i in range(4)}
    assert len(owner.processes()) == 1


FORKING = """
import os, sys, time
from rewardrate.sandbox import Limits, launch, run
small = Limits(seconds=20, memory_bytes=2**28, cores=1)
run("pass", small)
before = launch.SHARED.processes()
child = os.fork()
if child == 0:
    assert launch.SHARED.processes() == set()
    assert run("pass", small).status == "ok"
    assert not launch.SHARED.processes() & before
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert run("pass", small).status == "ok"
assert launch.SHARED.processes() == before
child = os.fork()
if child == 0:
    time.sleep(300)
    os._exit(0)
print(child, *before, flush=True)
time.sleep(300)
"""


def test_a_forked_child_has_its_own_launcher_and_does_not_keep_its_parents_alive(owner):
    parent = subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True)
    child, launcher = map(int, parent.stdout.readline().split())
    try:
        assert exists(launcher)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        assert wait_until(lambda: not exists(launcher)), "the child lives for 300 s"
    finally:
        os.kill(child, signal.SIGKILL)


def test_warm_servers_are_few(owner):
    imports = ("json", "no_such_module")
    for number in range(4):
        job = Job("import os; print(os.environ['N'])", SMALL, environment={"N": str(number)}, clock="warm")
        assert run_job(job, launchers=owner, imports=imports).stdout == f"{number}\n"
    assert len(owner.processes()) == launch.WARM_SERVERS
    assert owner.skipped() == ("no_such_module",)


def test_a_warm_server_that_cannot_start_is_our_failure(owner, monkeypatch):
    monkeypatch.setattr(launch, "SERVE_WARM", "raise SystemExit('no warmth')")
    result = run_job(Job("pass", SMALL, clock="warm"), launchers=owner, imports=("json",))
    assert (result.status, result.clock) == ("sandbox-failure", "warm")
    assert "no warmth" in result.message


def test_an_import_is_a_modules_name():
    launch.check_imports(["sklearn.svm"])
    with pytest.raises(InputError, match="name of a module"):
        launch.check_imports(["sklearn.svm as x"])


def test_runs_of_the_plain_function_share_one_launcher(owner):
    run("pass", SMALL)
    before = launch.SHARED.processes()
    run("pass", SMALL)
    assert launch.SHARED.processes() == before != set()


UNDER_WAY = """
import array, os, resource, socket, sys
from rewardrate.sandbox import Limits, launch, run
resource.setrlimit(resource.RLIMIT_NOFILE, (300, int(sys.argv[1])))
small = Limits(seconds=20, memory_bytes=2**28, cores=1)
assert run("pass", small, level="namespaces").status == "ok"
before = launch.SHARED.processes()
kept = [socket.socketpair() for _ in range(20)]
nothing = array.array("i", [os.open("/dev/null", os.O_RDONLY)] * 250)
try:
    for one, _ in kept:
        one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, nothing)])
except OSError as error:
    print(error.strerror)
print(run("print(1)", small, level="namespaces").stdout.strip(), launch.SHARED.processes() == before != set())
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize("most", [4000, 300])
def test_descriptors_that_others_have_under_way_end_no_launcher_and_no_box(as_user, most):
    """The kernel counts them for all processes of a user together; `most` we could have open ourselves if we asked."""
    done = as_user("-c", UNDER_WAY, str(most))
    assert done.stdout.splitlines() == ["Too many references: cannot splice", "1 True", "300"], done.stderr
