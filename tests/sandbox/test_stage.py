"""The judgement can fail: without isolation the same scripts steal and reach."""

import sys

import pytest

from rewardrate.sandbox.attacks import HONEST, REACHING, READING
from rewardrate.sandbox.stage import Stage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="isolation is Linux's")

BITE = {"read the answers", "read another run", "walk the disk", "read the answers through a link"}


def test_with_limits_alone_the_harmless_ones_get_through_and_are_noticed():
    with Stage() as stage:
        stolen = {attack.name for attack in READING if not stage.judge(attack, "limits").held}
        assert stolen >= BITE
        reached = set()
        for attack in REACHING[:3]:
            if not stage.judge(attack, "limits").held:
                reached.add(attack.name)
            stage.visits = 0
        assert reached == {attack.name for attack in REACHING[:3]}
        assert all(stage.judge(attack, "limits").held for attack in HONEST)


def test_the_stage_leaves_nothing_behind():
    with Stage() as stage:
        folder, victim = stage.folder, stage.victim
        assert folder.exists()
    assert not folder.exists()
    assert victim.poll() is not None
