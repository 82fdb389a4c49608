"""Trials run in children of a fresh process and leave nothing behind."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rewardrate.sandbox import trials

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these are Linux's means")


def run(code):
    program = f"import sys, os\nsys.path.insert(0, {str(Path(trials.__file__).parent)!r})\nimport trials\n{code}"
    return subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_script_prints_a_number_for_every_trial():
    done = subprocess.run([sys.executable, "-I", trials.__file__], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert set(found) == set(trials.TRIALS)
    assert all(isinstance(value, int) and value >= 0 for value in found.values())


def test_a_trial_does_not_change_the_process_that_asks():
    before = "before = [os.readlink(f'/proc/self/ns/{n}') for n in ('user', 'net', 'mnt')]\n"
    after = "assert before == [os.readlink(f'/proc/self/ns/{n}') for n in ('user', 'net', 'mnt')]\nprint('same')"
    assert run(before + "[trials.attempt(t) for t in trials.TRIALS.values()]\n" + after) == "same"


@pytest.mark.parametrize(
    "trial", ["lambda: 1 / 0", "lambda: os._exit(3)", "lambda: os.kill(os.getpid(), 9)", "lambda: 'x'"]
)
def test_a_trial_that_raises_or_dies_counts_as_no(trial):
    assert run(f"print(trials.attempt({trial}))") == "0"


def test_the_trial_of_groups_removes_the_group_it_made(tmp_path):
    assert trials.cgroup() in (0, 1)
    assert not trials._limited(str(tmp_path), "memory.max")  # an ordinary folder: made, found wanting, removed
    assert list(tmp_path.iterdir()) == []
    assert not trials._limited(str(tmp_path / "nowhere"), "memory.max")


def test_a_folder_without_controllers_is_no_delegated_group(tmp_path):
    assert not trials._delegated(str(tmp_path))
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("")
    assert not trials._delegated(str(tmp_path))
    try:
        os.setxattr(tmp_path, "user.delegate", b"1")
    except OSError:
        pytest.skip("no attributes here")
    assert trials._delegated(str(tmp_path))


def test_an_unknown_architecture_has_no_known_seccomp_number(monkeypatch):
    fake = os.uname_result(("Linux", "host", "6", "x", "riscv64"))
    monkeypatch.setattr(trials.os, "uname", lambda: fake)
    assert trials.seccomp() == 0


def test_what_can_be_asked_without_changing_anything_answers_here():
    assert trials.landlock() >= 0
    assert trials.seccomp() in (0, 1)


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root to take rights away")
def test_root_without_its_capabilities_may_not_become_another_user():
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-I", trials.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["slot_uid"], found["namespaces_as_root"]) == (0, 0)


def test_a_masked_proc_is_noticed():
    """Containers cover parts of /proc; the kernel then refuses a fresh one, and a box without it shows other runs."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    mask = "mount --make-rprivate / && mount -t tmpfs none /proc/tty && exec "
    command = ["unshare", "-Urm", "sh", "-c", f"{mask} {sys.executable} -I {trials.__file__}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["namespaces_as_user"] == 0
