"""Runs of root that do not know of each other run as different users, so that the end of one is not the end of both."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from rewardrate.sandbox import Limits, run, users

SYSTEM_PYTHON = "/usr/bin/python3"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")


def test_a_user_is_claimed_until_the_block_ends_whoever_asks():
    core = 300  # nobody runs there
    first, second = users.of(core)[:2]
    with users.claimed(core) as mine:
        assert mine == first
        code = f"from rewardrate.sandbox import users\nwith users.claimed({core}) as user: print(user)"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert int(other.stdout) == second
    with users.claimed(core) as mine:
        assert mine == first


def test_when_all_are_taken_the_first_is_shared():
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(users.claimed(301)) for _ in range(users.GROUPS + 1)]
    assert found == [*users.of(301), users.of(301)[0]]


def test_no_two_cores_have_a_user_in_common_and_all_fit_a_user_namespace():
    every = [user for core in range(users.WIDTH) for user in users.of(core)]
    assert len(set(every)) == len(every)
    assert max(every) < 65534


@needs_root
def test_the_end_of_a_run_without_namespaces_ends_no_script_of_a_program_with_other_locks(tmp_path):
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("needs a Python that every user may run")
    tmp_path.chmod(0o711)
    core, before = min(os.sched_getaffinity(0)), os.sched_getaffinity(0)
    ready = tmp_path / "ready"
    script = "import os, sys, time; print(os.getuid(), flush=True); time.sleep(3); print('alive')"
    code = (
        f"import os; os.sched_setaffinity(0, {{{core}}})\n"
        "from rewardrate.sandbox import Limits, run\n"
        f"open({str(ready)!r}, 'w')\n"
        f"result = run({script!r}, Limits(seconds=60, cores=1))\nprint(result.status, result.stdout)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 120
        while not ready.exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.sched_setaffinity(0, {core})
        seen = set()
        while other.poll() is None:  # again and again: one of them ends while the other's script sleeps
            mine = run("import os; print(os.getuid())", Limits(seconds=60, cores=1), level="uid+landlock+seccomp",
                       minimum="limits", python=SYSTEM_PYTHON)  # fmt: skip
            assert mine.status == "ok"
            seen.add(int(mine.stdout))
    finally:
        os.sched_setaffinity(0, before)
        said = other.communicate()[0].split()
    assert (said[0], said[-1]) == ("ok", "alive")
    assert int(said[1]) in users.of(core)
    assert seen - {int(said[1])}, "while that one had its user, this one had another"
