"""Every entry fits the script that we ship, and is what it says it is."""

from random import Random

import pytest

from rewardrate.environments.speedrun import race, seeds
from rewardrate.environments.speedrun.catalogue import CATALOGUE, descend, suggest
from rewardrate.environments.speedrun.edits import parse
from rewardrate.environments.speedrun.implementer import DirectImplementer
from rewardrate.environments.speedrun.judge import judge

RACE, CARD = race.load("nanogpt-mini"), race.load("nanogpt-gpu")
CASES = [
    pytest.param(rules, entry, value, id=f"{rules.name} {entry.name} {value}", marks=marks)
    for rules, marks in ((RACE, ()), (CARD, pytest.mark.deep))  # the two scripts differ in their constants alone
    for entry in CATALOGUE
    for value in entry.values
]
REFUSED = {"lost bracket": "syntax", "fewer validations": "cadence", "no reduction": "reduction"}


@pytest.mark.parametrize(("rules", "entry", "value"), CASES)
def test_an_entry_is_a_whole_reply_that_is_accepted_or_fails_as_named(rules, entry, value):
    suggestion = entry.suggest(rules.baseline, value)
    if suggestion is None:
        assert f" {value}" in rules.baseline, "an entry that changes nothing is a value that stands there already"
        return
    (made,) = DirectImplementer().implement([suggestion.reply()], [rules.baseline])
    why = {finding.rule for finding in judge(rules.baseline, made.code)} if made.code else {made.reason}
    assert (REFUSED[entry.name] in why) if entry.name in REFUSED else not why
    if made.code:
        assert made.code == suggestion.code(rules.baseline)


@pytest.mark.parametrize("steps", [60, 150, 225, 375, 1000])
def test_fewer_steps_are_fewer_than_the_parent_s_and_more_are_more(steps):
    parent = RACE.baseline.replace("TRAIN_STEPS = 225", f"TRAIN_STEPS = {steps}")
    asked = {
        entry.name: [int(entry.suggest(parent, value).value) for value in entry.values]
        for entry in CATALOGUE
        if entry.name.endswith("steps")
    }
    assert all(0.6 * steps < value < steps and value % 5 == 0 for value in asked["fewer steps"])
    assert all(steps < value < 1.3 * steps and value % 5 == 0 for value in asked["more steps"])


def test_factors_never_come_to_nothing():
    parent = RACE.baseline.replace("LAYERS = 4", "LAYERS = 1").replace("BATCH = 32", "BATCH = 8")
    layers, batch = (next(entry for entry in CATALOGUE if entry.name == name) for name in ("layers", "batch"))
    assert layers.suggest(parent, "0.5") is None
    assert batch.suggest(parent, "0.5") is None
    assert batch.suggest(parent, "2").value == "16"


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
