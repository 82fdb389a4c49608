"""`run`: what became of a script, and how long it really took."""

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits, job_template, levels, run, runner
from rewardrate.sandbox.limits import MIB
from rewardrate.sandbox.supervisor import Report

SMALL = Limits(seconds=30, memory_bytes=256 * MIB, cores=1, disk_bytes=32 * MIB)


def box():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")


@pytest.fixture(autouse=True)
def needs_namespaces():
    box()


def test_an_honest_script_ends_well_and_its_file_comes_back():
    result = run(
        "print('hello')\nopen('submission.csv', 'w').write('id,y\\n')", SMALL, collect=["submission.csv", "other.csv"]
    )
    assert (result.status, result.stdout, result.exit_code, result.message) == ("ok", "hello\n", 0, "")
    assert result.files == {"submission.csv": b"id,y\n"}
    assert result.refused == {"other.csv": "missing"}
    assert "namespaces" in result.level
    assert result.peak_memory_bytes > 2 * MIB


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("import sys; sys.exit(3)", "error", "exit code 3"),
        ("raise ValueError('no')", "error", "exit code 1"),
        ("import os; os.abort()", "killed", "SIGABRT"),
        ("import os; os.kill(os.getpid(), 40)", "killed", "signal 40"),
        ("import os; os.kill(os.getpid(), 64)", "killed", "SIGRTMAX"),
        ("while True: print('x' * 10**6)", "killed", "it printed more than"),
        ("x = [bytearray(10**7) for _ in range(100)]\nprint(sum(map(len, x)))", "memory", "it used more than"),
    ],
)
def test_every_ending_has_its_status(script, status, words):
    result = run(script, SMALL)
    if status == "memory" and result.status == "error":
        assert "MemoryError" in result.stderr  # without a memory group the limit is the process's own
        return
    assert result.status == status
    assert words in result.message


def test_seconds_are_those_of_the_script_not_of_the_box():
    start = time.monotonic()
    result = run("import time; time.sleep(0.5)", SMALL)
    assert (
        0.5 <= result.seconds <= time.monotonic() - start - result.overhead_seconds
    )  # late on a busy machine, never early
    assert result.cpu_seconds < 0.5
    assert result.overhead_seconds > 0


ALL = ["namespaces+cgroup", "namespaces", "uid+landlock+seccomp", "landlock+seccomp", "limits"]


def at(level, script, limits=SMALL, **arguments):
    """A run at this level, or a skip where it cannot be had."""
    names = [known.name for known in levels.LEVELS]
    if names.index(levels.try_isolation().level.name) > names.index(level):
        pytest.skip("this machine does not allow it")
    python = None
    if level.startswith("uid"):
        python = "/usr/bin/python3"  # open to the other user
        if os.geteuid() != 0 or not os.access(python, os.X_OK):
            pytest.skip("needs root, and a Python that every user may run")
    return run(script, limits, level=level, minimum="limits", python=python, **arguments)


LINGERING = """
import os, threading, time
start = time.monotonic()
read, write = os.pipe()
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)  # until the main process is gone
    file = os.open("submission.csv", os.O_CREAT | os.O_WRONLY)
    while True: os.pwrite(file, b"%f" % (time.monotonic() - start), 0)
files = [os.open("/dev/null", 0) for _ in range(950)]
event = threading.Event()
for _ in range(40): threading.Thread(target=event.wait, daemon=True).start()
for thread in os.listdir("/proc/self/task"):  # the kernel forgets each of these names when the process is reaped
    for number in files: os.stat(f"/proc/self/task/{thread}/fdinfo/{number}")
os._exit(0)
"""


@pytest.mark.parametrize("level", ALL)
def test_what_a_child_does_while_the_main_process_is_slowly_reaped_is_charged(level):
    for _ in range(3):
        result = at(level, LINGERING, Limits(seconds=20, memory_bytes=512 * MIB, cores=1), collect=["submission.csv"])
        assert result.status == "ok"
        assert result.stragglers >= 1
        assert result.seconds >= float(result.files.get("submission.csv") or 0)  # it may be killed before it writes


def test_a_script_that_ends_after_its_deadline_is_late_even_if_that_is_noticed_afterwards():
    script = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\ntime.sleep(0.995)"
    result = run(script, Limits(seconds=1, memory_bytes=256 * MIB, cores=1))
    assert result.seconds <= 1
    assert (result.status == "timeout") == (result.seconds == 1)


IGNORING = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
read, write = os.pipe()
if os.fork() == 0:
    while time.process_time() < 0.7: pass
    os._exit(0)
os.close(write)
os.read(read, 1)
"""


@pytest.mark.parametrize("level", ALL)
def test_the_cpu_clock_charges_children_that_nobody_waited_for(level):
    result = at(level, IGNORING, clock="cpu")
    assert (result.status, result.clock) == ("ok", "cpu")
    assert result.priced_seconds >= 0.65


def test_the_cpu_clock_is_exact_for_a_single_process_whatever_others_do(busy_cores):
    result = run("import time\nwhile time.process_time() < 0.5: pass", SMALL, level="namespaces", clock="cpu")
    assert 0.5 <= result.priced_seconds < 0.9, "all work on the core meanwhile is twice as much"


@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(os.getppid(), 9)",
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))",
    ],
)
def test_a_script_that_breaks_its_init_is_charged_the_limit(attack):
    result = at("limits", f"import os, resource, time\n{attack}\ntime.sleep(0.3)", clock="cpu")
    assert (result.status, result.priced_seconds) == ("killed", SMALL.seconds)


REPORT = {
    "started": st.booleans(),
    "verdict": st.sampled_from(["", "timeout", "memory", "disk", "stopped", "odd"]) | st.none(),
    "status": st.integers(-(2**40), 2**40) | st.integers(0, 0xFFFF) | st.text(),
    "seconds": st.floats() | st.none() | st.text(),
    "end": st.integers() | st.floats(),
    "cpu_seconds": st.floats() | st.integers(),
    "most_cpu_seconds": st.floats(),
    "peak_memory_bytes": st.integers() | st.none(),
    "wait_seconds": st.floats(),
    "foreign_share": st.floats() | st.text(),
    "stragglers": st.integers(),
    "gone": st.booleans(),
    "refused": st.dictionaries(st.text(), st.text()),
    "failure": st.text() | st.integers(),
}
SOUND = {"verdict": "", "seconds": 1.0, "end": 0, "cpu_seconds": 1.0, "peak_memory_bytes": 1, "wait_seconds": 0.0}
SOUND |= {"foreign_share": 0.0, "stragglers": 0, "gone": True, "refused": {}}
STATUSES = {"ok", "error", "timeout", "memory", "killed", "sandbox-failure"}


@given(
    st.fixed_dictionaries({}, optional=REPORT),
    st.sampled_from(["", "output", "deadline"]),
    st.booleans(),
    st.sampled_from([None, "wall", "cpu", "warm"]),
    st.binary(max_size=40),
)
def test_whatever_a_report_says_it_becomes_a_result_and_a_script_that_ran_is_charged(
    found, stopped, ran_out, clock, said
):
    report = Report(dict(found), {"a": said}, stopped=stopped)
    report.out.add(said)
    result = runner._result(report, Job("pass", SMALL, clock=clock), levels.LEVELS[0], 1.0, 0, ran_out, 10**9)
    assert result.status in STATUSES
    assert math.isfinite(result.priced_seconds)
    assert result.priced_seconds >= 0
    assert result.contaminated in (True, False)
    if found.get("started") or "seconds" in found or ran_out:
        assert result.status != "sandbox-failure"
    if result.status == "timeout":
        assert result.priced_seconds == SMALL.seconds


@given(st.integers(0, 0xFFFF))
def test_every_wait_status_has_a_verdict(status):
    report = Report({**SOUND, "started": True, "status": status})
    result = runner._result(report, Job("pass", SMALL), levels.LEVELS[0], 1.0, 0, False, 10**9)
    assert (result.status == "ok") == (status == 0)
    assert result.status in ("ok", "error", "killed")


def test_a_tree_that_could_not_be_buried_costs_the_limit():
    report = Report({**SOUND, "started": True, "status": 0, "gone": False})
    result = runner._result(report, Job("pass", SMALL, clock="cpu"), levels.LEVELS[0], 1.0, 0, False, 10**9)
    assert (result.status, result.priced_seconds) == ("timeout", SMALL.seconds)


def test_an_init_that_went_with_its_launcher_is_our_failure_and_one_that_died_alone_is_not():
    for lost, status in ((True, "sandbox-failure"), (False, "killed")):
        report = Report({"started": True}, lost_launcher=lost)
        result = runner._result(report, Job("pass", SMALL), levels.LEVELS[0], 1.0, 0, False, 10**9)
        assert result.status == status


def test_at_the_deadline_the_limit_is_charged():
    result = run("while True: pass", Limits(seconds=1, memory_bytes=256 * MIB, cores=1))
    assert (result.status, result.seconds) == ("timeout", 1)
    assert "ran longer than 1 s" in result.message
    assert result.settle_seconds < 15


def test_children_that_outlive_the_script_are_counted_and_gone():
    result = run("import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)", SMALL)
    assert result.status == "ok", "it is not waited for"
    assert result.stragglers >= 1


def test_the_script_sees_its_environment_files_data_and_cores_and_no_others():
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-data-"))  # pytest's own folders are closed to other users
    folder.chmod(0o755)
    (folder / "train.csv").write_text("1,2")
    script = (
        "import os\n"
        "print(sorted(os.environ))\nprint(open('data/task/train.csv').read(), open('seed.txt').read())\n"
        "print(len(os.sched_getaffinity(0)), sorted(os.listdir('.')))\n"
    )
    os.environ["SECRET_KEY"] = "x"
    try:
        result = run(script, SMALL, data={"task": folder}, files={"seed.txt": b"7"}, environment={"MINE": "1"})
    finally:
        del os.environ["SECRET_KEY"]
        (folder / "train.csv").unlink()
        folder.rmdir()
    names, content, rest = result.stdout.splitlines()
    assert "SECRET" not in names
    assert "'MINE'" in names
    assert content == "1,2 7"
    assert rest == "1 ['data', 'script.py', 'seed.txt']"


def test_a_device_is_seen_only_if_it_was_given():
    script = "import os, stat; print(stat.S_ISCHR(os.stat('/dev/tty').st_mode) if os.path.exists('/dev/tty') else None)"
    assert run(script, SMALL).stdout == "None\n"
    for clock in ("wall", "warm"):
        assert run(script, SMALL, devices=("/dev/tty",), clock=clock).stdout == "True\n"


def test_a_box_that_cannot_start_is_our_failure_and_says_why(monkeypatch):
    monkeypatch.setattr(job_template, "SCRIPT", "no/such/folder/script.py")
    result = run("pass", SMALL)
    assert result.status == "sandbox-failure"
    assert "FileNotFoundError" in result.message


def test_a_working_directory_on_disk_is_gone_however_deep_and_closed_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = "import os\nfor _ in range(2000):\n    os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
    assert run(script, SMALL, level="limits", minimum="limits").status == "ok"
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_supervisor_is_swept_and_nothing_else_is(tmp_path, monkeypatch):
    """Its core is free then; a folder of another core may be in use, and a link is not followed."""
    code = (
        "from rewardrate.sandbox import Limits, run\n"
        "run('import time; time.sleep(60)', Limits(seconds=60, cores=1, memory_bytes=2**28), level='limits', minimum='limits')\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        deadline = time.monotonic() + 300
        while not list(tmp_path.glob("rewardrate-*-*/script.py")) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        supervisor.kill()
        supervisor.wait()
    (left,) = tmp_path.glob("rewardrate-*-*/script.py")
    slot = int(left.parent.name.split("-")[1])
    kept, other = tmp_path / "kept", tmp_path / f"rewardrate-{slot + 1}-abc"
    for folder in (kept, other):
        folder.mkdir()
    (tmp_path / f"rewardrate-{slot}-link").symlink_to(kept)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runner.sweep(slot)
    assert not left.parent.exists()
    assert kept.exists()
    assert other.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"level": "namespace"}, "did you mean 'namespaces'"),
        ({"minimum": "landlok"}, "there is no such level"),
        ({"level": "limits"}, "which lacks any protection"),
        ({"data": {"task": Path("/nonexistent")}}, "there is no such file"),
        ({"data": {"../x": Path("/tmp")}}, "a name is made of"),
        ({"hide": ["/usr"]}, "it holds /usr"),
        ({"clock": "wrist"}, "it must be one of wall, cpu, warm"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(arguments, words):
    with pytest.raises(InputError, match=words):
        run("pass", SMALL, **arguments)


def test_a_stronger_level_than_the_machine_has_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(runner, "isolation", lambda: levels.Isolation(levels.LEVELS[2], {}))
    with pytest.raises(InputError, match="allow namespaces"):
        run("pass", SMALL, level="namespaces")
    with pytest.raises(InputError, match="or accept less"):
        run("pass", SMALL)


def test_when_the_supervisor_is_killed_nothing_is_left():
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    code = (
        "from rewardrate.sandbox import Limits, run\n"
        "script = 'import os, time\\nos.fork()\\nos.setsid() if os.getpid() != 2 else None\\ntime.sleep(300)'\n"
        f"run(script, Limits(seconds=300, cores=1, memory_bytes=2**28), environment={{'MARK': {mark!r}}})\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 300  # another test may own the cores
        while not living(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert living(mark), "the script never started"
    finally:
        supervisor.kill()
        supervisor.wait()
    deadline = time.monotonic() + 60  # a few milliseconds on a quiet machine
    while living(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert living(mark) == 0


def test_nothing_is_removed_through_a_mount(tmp_path, monkeypatch):
    assert runner._mounted_below("/sys") or runner._mounted_below("/dev")
    assert not runner._mounted_below(str(tmp_path))
    if os.geteuid() != 0:
        return
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = f"import ctypes, os\nos.mkdir('m')\nprint(ctypes.CDLL(None).mount({str(kept)!r}.encode(), b'm', None, 4096, None), os.getcwd())"
    result = run(script, SMALL, level="limits", minimum="limits")
    code, folder = result.stdout.split()
    assert (kept / "file").exists()
    if code == "0":
        subprocess.run(["umount", f"{folder}/m"], check=True)


def test_a_script_that_takes_even_the_inits_memory_is_charged_for_it():
    if levels.try_isolation().level.name != "namespaces+cgroup":
        pytest.skip("needs a memory group")
    limits = Limits(seconds=20, memory_bytes=32 * MIB, cores=1, disk_bytes=64 * MIB)
    fill = (
        "import os\nfor i in range(200):\n    if os.fork() == 0:\n"
        "        open(f'/dev/shm/{i}', 'wb').write(bytes(1 << 20))\n        open(f'x{i}', 'wb').write(bytes(1 << 20))\n"
        "        os._exit(0)\n    os.wait()\n"
    )
    assert run(fill, limits).status == "memory"


def living(mark):
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            count += f"MARK={mark}".encode() in path.read_bytes()
    return count


def test_many_short_runs_leak_no_descriptors():
    run("pass", SMALL)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        assert run("pass", SMALL).status == "ok"
    assert len(os.listdir("/proc/self/fd")) == before
