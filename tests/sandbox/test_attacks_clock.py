"""The attacks on the clock bite where nothing holds them, and the stage sees a script that was charged too little."""

import sys

import pytest

from rewardrate.sandbox import levels
from rewardrate.sandbox.attacks import TIMING, Attack
from rewardrate.sandbox.attacks_clock import COMMON, ROWS
from rewardrate.sandbox.stage import Stage

NEEDED = "needs namespaces"


@pytest.fixture
def stage():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip(NEEDED)
    with Stage() as made:
        yield made


def test_every_row_is_an_attack_of_its_own():
    assert [attack.name for attack in TIMING] == [row[0] for row in ROWS]
    assert len({row[1] for row in ROWS}) == len(ROWS) >= 27


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_script_that_worked_longer_than_it_was_charged_is_seen(stage, clock):
    honest = Attack("honest", COMMON + "burn(0.2)\nsubmit(time.process_time())", ("ok",), measured=True, clock=clock)
    assert stage.judge(honest).held
    free = Attack("free", COMMON + "submit(1.5)", ("ok",), measured=True, clock=clock)
    judgement = stage.judge(free)
    assert "it worked for 1.50 s and was charged" in judgement.why
    assert judgement.result.clock == clock
