"""Every entry fits the script that we ship, and is what it says it is."""

from random import Random

import pytest

from rewardrate.environments.speedrun import race, seeds
from rewardrate.environments.speedrun.catalogue import CATALOGUE, Suggestion, descend, suggest
from rewardrate.environments.speedrun.edits import parse
from rewardrate.environments.speedrun.implementer import DirectImplementer
from rewardrate.environments.speedrun.judge import judge

RACE = race.load("nanogpt-mini")
CASES = [(entry, value) for entry in CATALOGUE for value in entry.values]
REFUSED = {"lost bracket": "syntax", "fewer validations": "cadence", "no reduction": "reduction"}


@pytest.mark.parametrize(("entry", "value"), CASES, ids=[f"{entry.name} {value}" for entry, value in CASES])
def test_an_entry_is_a_whole_reply_that_is_accepted_or_fails_as_named(entry, value):
    found = entry.blocks(RACE.baseline, value)
    if not found:
        there = f" {value}" in RACE.baseline
        assert there or entry.side, "an entry that changes nothing is a value that stands there already"
        return
    suggestion = Suggestion(entry, value, tuple(found))
    (made,) = DirectImplementer().implement([suggestion.reply()], [RACE.baseline])
    why = {finding.rule for finding in judge(RACE.baseline, made.code)} if made.code else {made.reason}
    assert (REFUSED[entry.name] in why) if entry.name in REFUSED else not why
    if made.code:
        assert made.code == suggestion.code(RACE.baseline)


@pytest.mark.parametrize("steps", [60, 150, 225, 260])
def test_fewer_steps_are_fewer_than_the_parent_s_and_more_are_more(steps):
    parent = RACE.baseline.replace("TRAIN_STEPS = 225", f"TRAIN_STEPS = {steps}")
    kept = {
        entry.name: {int(value) for value in entry.values if entry.blocks(parent, value)}
        for entry in CATALOGUE
        if entry.side
    }
    assert all(value < steps for value in kept["fewer steps"])
    assert all(value > steps for value in kept["more steps"])
    assert kept["fewer steps"] | kept["more steps"]


def test_there_are_mechanisms_settings_and_mistakes_to_learn_from():
    kinds = [entry.kind for entry in CATALOGUE]
    assert min(kinds.count(kind) for kind in ("mechanism", "setting", "mistake")) >= 5
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("number", range(20))
def test_changes_follow_one_another_on_the_baseline_and_on_every_seed(number):
    random = Random(number)
    for start in [RACE.baseline, *(seed.code for seed in seeds.read(RACE.seeds, RACE))]:
        parent = descend(random, start, 3)
        parse(parent)
        found = suggest(random, parent)
        assert found is not None
        assert found.code(parent) != parent
