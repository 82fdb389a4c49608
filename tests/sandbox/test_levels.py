"""The strongest isolation is found by trying, and each level says what it keeps and what it does not."""

import sys
from pathlib import Path

import pytest

from rewardrate.sandbox import levels
from rewardrate.sandbox.levels import LEVELS, choose_level, try_isolation

ALL = {"namespaces_as_root": 1, "namespaces_as_user": 1, "landlock": 7, "seccomp": 1, "cgroup": 1, "slot_uid": 1}
NO_NAMESPACES = {**ALL, "namespaces_as_root": 0, "namespaces_as_user": 0}


@pytest.mark.parametrize(
    ("trials", "root", "name"),
    [
        (ALL, True, "namespaces+cgroup"),
        ({**ALL, "cgroup": 0}, False, "namespaces"),
        ({**ALL, "namespaces_as_user": 0}, True, "namespaces+cgroup"),
        ({**ALL, "namespaces_as_user": 0}, False, "landlock+seccomp"),
        (NO_NAMESPACES, True, "uid+landlock+seccomp"),
        (NO_NAMESPACES, False, "landlock+seccomp"),
        ({**NO_NAMESPACES, "slot_uid": 0}, True, "landlock+seccomp"),
        ({**NO_NAMESPACES, "seccomp": 0}, True, "limits"),
        ({**NO_NAMESPACES, "landlock": 0}, False, "limits"),
        ({}, True, "limits"),
    ],
)
def test_the_level_follows_from_what_worked(trials, root, name):
    assert choose_level(trials, root=root).name == name


def test_every_level_says_what_it_keeps_and_lacks_and_all_but_the_best_how_to_improve():
    assert len(LEVELS) == 5
    assert all(level.guarantees and level.lacks for level in LEVELS)
    assert [bool(level.remedy) for level in LEVELS] == [False, True, True, True, True]


def test_what_each_level_can_do():
    can = {level.name: level.can for level in LEVELS}
    assert [can[name].memory_group for name in can] == ["always", "never", "as-root", "never", "never"]
    apart = {name for name in can if can[name].own_mounts}
    assert apart == {"namespaces+cgroup", "namespaces"}
    for record in can.values():
        assert len({record.own_mounts, record.pid_namespace, record.own_network, record.own_ipc}) == 1
    assert {name for name in can if can[name].seccomp} == set(can) - {"limits"}
    assert {name for name in can if can[name].landlock} == set(can) - apart - {"limits"}
    assert {name for name in can if can[name].slot_user} == apart | {"uid+landlock+seccomp"}
    assert {name for name in can if can[name].host_shared_memory} == {"uid+landlock+seccomp"}
    assert [level.name for level in LEVELS if level.known_attacks is None] == ["limits"]


def test_no_level_is_asked_for_by_its_name_outside_of_the_table_of_levels():
    """So a new level is an entry of that table. Defaults of `minimum` name one, which is what users do."""
    folder = Path(levels.__file__).parent
    words = ("level.name ==", "level.name !=", "level.name in", "level ==", 'startswith("namespaces', 'config["mode"]')
    for path in folder.rglob("*.py"):
        assert path.name == "levels.py" or not [word for word in words if word in path.read_text()], path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="isolation is Linux's")
def test_this_machine_gets_a_level_from_real_trials():
    isolation = try_isolation()
    assert set(isolation.trials) == set(ALL)
    assert isolation.level in LEVELS


def test_a_trial_that_cannot_run_leaves_limits_alone(monkeypatch):
    monkeypatch.setattr(levels.sys, "executable", "/nonexistent/python")
    assert try_isolation().level.name == "limits"


def test_other_systems_have_limits_alone(monkeypatch):
    monkeypatch.setattr(levels.sys, "platform", "darwin")
    assert try_isolation().level.name == "limits"
