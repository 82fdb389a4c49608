"""The judgement can fail: without isolation the same scripts steal and reach."""

import dataclasses
import sys

import pytest

from rewardrate.sandbox.attacks import HIDING, HONEST, LIMIT, REACHING, READING, Attack
from rewardrate.sandbox.launch import SHARED
from rewardrate.sandbox.levels import try_isolation
from rewardrate.sandbox.result import Result
from rewardrate.sandbox.stage import AttackJudgement, Stage

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="isolation is Linux's")

BITE = {"read the answers", "read another run", "walk the disk", "read the answers through a link"}

SHOW = {"read a hidden file", "read a file that is hidden alone", "list a hidden folder"}


def test_with_limits_alone_the_harmless_ones_get_through_and_are_noticed():
    with Stage() as stage:
        stolen = {attack.name for attack in READING if not stage.judge(attack, "limits").held}
        assert stolen >= BITE
        shown = [attack for attack in HIDING if attack.name in SHOW]  # never those that mount: here they would be real
        assert {attack.name for attack in shown if not stage.judge(attack, "limits").held} == SHOW
        assert not any(stage.judge(attack, "limits").held for attack in REACHING[:3])
        assert all(stage.judge(attack, "limits").held for attack in HONEST)


def test_the_stage_leaves_nothing_behind():
    with Stage() as stage:
        folder, victim = stage.folder, stage.victim
        assert folder.exists()
    assert not folder.exists()
    assert victim.poll() is not None


def test_stages_of_a_process_share_a_warm_server():
    servers = []
    for _ in range(2):
        with Stage(clock="warm") as stage:
            assert stage.judge(HONEST[1], try_isolation().level.name).held
        servers.append(SHARED.processes())
    assert servers[0] == servers[1]


def test_lateness_alone_is_told_apart_from_damage_and_is_noticed():
    quick = dataclasses.replace(Result("ok", 0.1, 0.1, 1, "", "", {}), settle_seconds=0.1)
    late = dataclasses.replace(quick, settle_seconds=0.9)
    with Stage() as stage:
        assert stage._damage(HONEST[1], quick) == ""
        assert stage._damage(HONEST[1], late) == "it was over 0.90 s late"
        assert AttackJudgement(HONEST[1], False, stage._damage(HONEST[1], late), late).only_late
        assert stage._damage(HONEST[1], dataclasses.replace(late, foreign_share=0.3)) == ""
        assert stage._damage(HONEST[1], dataclasses.replace(late, foreign_share=0.3, settle_seconds=4.1)) != ""
        stolen = dataclasses.replace(late, stdout=stage.secret)
        assert not AttackJudgement(HONEST[1], False, stage._damage(HONEST[1], stolen), stolen).only_late


def test_an_attack_that_ran_out_of_time_is_tried_once_more_with_ten_times_as_much():
    slow = Attack("slow", f"import time\ntime.sleep({LIMIT} + 0.2)", ("ok",))
    with Stage() as stage:
        assert stage.judge(slow, "limits").held
        thief = dataclasses.replace(slow, script=slow.script + "\nprint(open(ANSWERS).read())")
        assert "the secret came out" in stage.judge(thief, "limits").why
