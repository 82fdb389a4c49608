"""What a level can do is one record; what follows from it is asked by name."""

import dataclasses
import json

from rewardrate.sandbox.box.capabilities import Capabilities
from rewardrate.sandbox.levels import NAMED


def test_a_record_reaches_the_init_as_it_was():
    for level in NAMED.values():
        assert Capabilities(**json.loads(json.dumps(dataclasses.asdict(level.can)))) == level.can


def test_without_a_pid_namespace_the_slots_user_or_the_supervisors_own_processes_are_concerned():
    assert [name for name, level in NAMED.items() if level.can.kills_slot_user] == ["uid+landlock+seccomp"]
    assert [name for name, level in NAMED.items() if level.can.runs_as_supervisor] == ["landlock+seccomp", "limits"]


def test_what_can_do_nothing_protects_nothing():
    nothing = dataclasses.asdict(Capabilities())
    assert nothing.pop("memory_group") == "never"
    assert not any(nothing.values())


def test_every_level_but_the_weakest_protects_files():
    assert [name for name, level in NAMED.items() if not level.can.protects_files] == ["limits"]
