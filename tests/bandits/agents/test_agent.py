"""What an agent is, and how one is found."""

import pytest

from rewardrate.bandits import NPG, SPG, Agent
from rewardrate.bandits.agents import find, known
from rewardrate.bandits.agents.agent import first
from rewardrate.errors import InputError


def test_agents_of_the_folder_are_known_by_name():
    assert known()["npg"] is NPG
    assert find("spg") is SPG


def test_an_agent_elsewhere_is_named_by_module_and_class():
    assert find("rewardrate.bandits.agents.npg:NPG") is NPG


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nqg", "did you mean 'npg'?"),
        ("nowhere:Mine", "it cannot be imported"),
        ("json:loads", "not a subclass"),
        ("json:nothing", "it cannot be imported"),
        (":", "it cannot be imported"),
    ],
)
def test_an_unknown_agent_is_refused_in_one_line(name, words):
    with pytest.raises(InputError, match="agent = ") as error:
        find(name)
    assert words in str(error.value)


def test_settings_are_named():
    assert NPG(0.3, 60).settings() == {"learning_rate": 0.3, "age": 60, "estimator": None}


def test_an_agent_must_say_how_it_starts():
    with pytest.raises(TypeError, match="abstract"):
        Agent()
    assert first([3.0, 1.0]) == 3.0
