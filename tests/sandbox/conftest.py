"""What tests of the sandbox share: a turn for those that need a core in time, a folder on a disk."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.sandbox import levels

SYSTEM_PYTHON = "/usr/bin/python3"
ORDINARY = 65534


@pytest.fixture
def in_turn(tmp_path_factory):
    """Held by one test at a time, over all workers: without a control group memory is watched by looking often."""
    place = tmp_path_factory.getbasetemp().parent / "in-turn.lock"
    with open(place, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def disk():
    """A folder where pages can be evicted: not where /tmp is memory."""
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-pages-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def as_user():
    """Runs a Python with these arguments as an ordinary user who can read the source."""
    if os.geteuid() != 0:
        yield lambda *words: subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        return
    is_new = [SYSTEM_PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    if not os.access(SYSTEM_PYTHON, os.X_OK) or subprocess.run(is_new, check=False).returncode:
        pytest.skip("needs a Python 3.11 that every user may run")
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-user-"))
    who = {"user": ORDINARY, "group": ORDINARY, "extra_groups": [], "cwd": "/"}
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder), "HOME": "/nonexistent"}

    def run(*words):
        command = [SYSTEM_PYTHON, "-B", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **who)
        if "this machine allows" in done.stderr:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        return done

    try:
        shutil.copytree(Path(levels.__file__).parents[2] / "rewardrate", folder / "rewardrate")
        folder.chmod(0o755)
        yield run
    finally:
        shutil.rmtree(folder)


SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


@pytest.fixture
def busy_cores():
    """A process of others on every core; each in a session of its own, or the kernel counts them as one beside ours."""
    cores = sorted(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", SPIN], start_new_session=True) for _ in cores]
    try:
        for process, core in zip(others, cores, strict=True):
            os.sched_setaffinity(process.pid, [core])
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()
