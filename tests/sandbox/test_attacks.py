"""The attack suite: at every level that can be had here, exactly what is known to get through gets through."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.sandbox import attacks, levels
from rewardrate.sandbox.attacks import ATTACKS, KNOWN
from rewardrate.sandbox.runner import isolation
from rewardrate.sandbox.stage import Stage

SYSTEM_PYTHON = "/usr/bin/python3"
GROUPS = [
    "READING",
    "HIDING",
    "REACHING",
    "KILLING",
    "CHANGING",
    "STAYING",
    "EATING",
    "FORGING",
    "SHARING",
    "TIMING",
    "HONEST",
]
# The two namespace levels differ by the group for memory and processes alone. Attacks that have nothing to do with it are
# tried at the stronger level where there is one, and at both as an ordinary user or in `make test-deep`. So are those
# that take longest: an ordinary user always tries every attack at the weaker level, cold and warm.
WHATEVER_THE_GROUP = {"READING", "HIDING", "REACHING", "KILLING", "CHANGING", "SHARING"}
LONGEST = {"STAYING", "TIMING"}
BOTH = isolation().level.name == "namespaces+cgroup"
IN_NAMESPACES = [
    pytest.param(level, group, marks=pytest.mark.deep)
    if BOTH and level == "namespaces" and group in WHATEVER_THE_GROUP | LONGEST
    else (level, group)
    for level in ("namespaces+cgroup", "namespaces")
    for group in GROUPS
]
pytestmark = pytest.mark.usefixtures("in_turn")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="isolation is Linux's")


def strongest():
    return levels.try_isolation().level.name


def skip_unless(level):
    names = [known.name for known in levels.LEVELS]
    if names.index(strongest()) > names.index(level):
        pytest.skip(f"this machine allows {strongest()} at most")


def broken(level, scripts, python=None, clock="wall"):
    """Names of the attacks that got through, and why."""
    found = {}
    with Stage(python, clock) as stage:
        for attack in scripts:
            judgement = stage.judge(attack, level)
            if not judgement.held:
                found[attack.name] = judgement.why
    return found


@linux
@pytest.mark.parametrize(("level", "group"), IN_NAMESPACES)
def test_nothing_gets_out_of_a_namespace(level, group):
    skip_unless(level)
    assert broken(level, getattr(attacks, group)) == {}


@linux
@pytest.mark.parametrize(("level", "group"), IN_NAMESPACES)
def test_nothing_gets_out_of_a_namespace_that_a_warm_server_forked_into(level, group):
    skip_unless(level)
    assert broken(level, getattr(attacks, group), clock="warm") == {}


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")
@pytest.mark.parametrize("group", GROUPS)
def test_another_uid_with_landlock_and_seccomp_holds_all_but_what_is_known(group):
    if not os.access(SYSTEM_PYTHON, os.X_OK):
        pytest.skip("needs a Python that every user may run")
    scripts = getattr(attacks, group)
    known = KNOWN["uid+landlock+seccomp"] & {attack.name for attack in scripts}
    found = broken("uid+landlock+seccomp", scripts, SYSTEM_PYTHON)
    assert set(found) == known, found


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
@pytest.mark.parametrize(
    ("level", "clock"), [("namespaces", "wall"), ("landlock+seccomp", "wall"), ("namespaces", "warm")]
)
def test_an_ordinary_user_gets_the_same_protection(as_user, level, clock):
    """The suite as uid 65534, with the system's Python and a copy of the source that it may read."""
    done = as_user("-m", "rewardrate", "sandbox", "check", "--json", "--level", level, "--clock", clock)
    found = json.loads(done.stdout)
    assert (found["level"], found["tried"]) == (level, len(ATTACKS))
    assert set(found["broken"]) == KNOWN[level], found["broken"]


OWN_FILE = """
import sys
from rewardrate.sandbox.attacks import CHANGING
from rewardrate.sandbox.stage import Stage
attack = next(attack for attack in CHANGING if attack.name == "change the running interpreter's file")
for clock in ("wall", "warm"):
    with Stage(sys.argv[1], clock) as stage:
        judgement = stage.judge(attack, "namespaces")
        print(clock, judgement.held, judgement.why, judgement.result.stderr)
"""


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
def test_a_user_who_owns_the_interpreter_cannot_change_it_from_inside_cold_or_warm():
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-user-"))
    who = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}
    try:
        shutil.copytree(Path(levels.__file__).parents[2] / "rewardrate", folder / "source" / "rewardrate")
        folder.chmod(0o755)
        (folder / "own").mkdir()
        os.chown(folder / "own", 65534, 65534)
        python = str(folder / "own" / "venv" / "bin" / "python")
        make = [SYSTEM_PYTHON, "-m", "venv", "--copies", "--without-pip", str(folder / "own" / "venv")]
        if subprocess.run(make, check=False, capture_output=True, **who).returncode != 0:
            pytest.skip("needs a Python 3.11 that every user may run")
        assert os.stat(python).st_uid == 65534
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "source"), "HOME": "/nonexistent"}
        command = [SYSTEM_PYTHON, "-B", "-c", OWN_FILE, python]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **who)
        if "this machine allows" in done.stderr:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert [line.split()[:2] for line in done.stdout.splitlines() if line] == [
            ["wall", "True"],
            ["warm", "True"],
        ], done
    finally:
        shutil.rmtree(folder)


def test_there_are_more_than_a_hundred_scripts_and_each_has_its_name():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) > 100
    for attack in ATTACKS:
        compile(attack.script, attack.name, "exec")
    assert all(known <= {attack.name for attack in ATTACKS} for known in KNOWN.values())
