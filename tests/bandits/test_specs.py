"""Agents in words."""

import pytest

from rewardrate.bandits import CUCB, NPG, SPG, World
from rewardrate.bandits.specs import parse, settings_text
from rewardrate.errors import InputError
from rewardrate.rates import Totals

WORLD = World("E1", 10, 4)


def test_a_single_agent():
    spec = parse("npg learning_rate=0.3 age=1000")
    assert spec.label == "npg"
    assert spec.agents(WORLD) == [NPG(0.3, 1000)]


def test_a_grid_is_every_combination_the_last_setting_fastest():
    spec = parse("spg learning_rate=0.1,1 age=60,125")
    assert spec.agents(WORLD) == [SPG(0.1, 60), SPG(0.1, 125), SPG(1, 60), SPG(1, 125)]


def test_theory_takes_its_constants_from_the_world():
    spec = parse("cucb theory policies=64")
    assert spec.label == "cucb theory"
    assert spec.agents(WORLD) == [CUCB.theory(WORLD, 64)]
    assert parse("cucb c1=0 c2=1e-6 policies=none").agents(WORLD) == [CUCB(0, 1e-6)]


def test_an_estimator_and_a_label_of_its_own():
    spec = parse("npg learning_rate=0.3 age=60 estimator=totals as=mine")
    assert spec.label == "mine"
    assert isinstance(spec.agents(WORLD)[0].estimator, Totals)


def test_settings_have_one_text():
    assert settings_text({"b": 1, "a": 0.5}) == settings_text({"a": 0.5, "b": 1}) == '{"a": 0.5, "b": 1}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it must name an agent"),
        (None, "it must name an agent"),
        ("nqg age=3", "did you mean 'npg'?"),
        ("npg learning_rate=0.3", "it needs age=..."),
        ("npg learning_rat=0.3 age=3", "did you mean 'learning_rate'?"),
        ("npg learning_rate=0.3 age", "'age' is not name=value"),
        ("npg learning_rate=0.3 age=", "is not name=value"),
        ("npg learning_rate=0.3 age=3 age=4", "it is given twice"),
        ("npg theory", "'theory' is not name=value"),
    ],
)
def test_a_wrong_word_is_named(text, words):
    with pytest.raises(InputError) as error:
        parse(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("npg learning_rate=fast age=3", "learning_rate = 'fast'"),
        ("npg learning_rate=0.3 age=3 estimator=niww", "did you mean 'niw'?"),
        ("cucb c1=1,-1 c2=1", "c1 = -1"),
    ],
)
def test_a_wrong_value_is_named_when_the_agent_is_made(text, words):
    with pytest.raises(InputError) as error:
        parse(text).agents(WORLD)
    assert words in str(error.value)
