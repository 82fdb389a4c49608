from random import Random

import pytest

from fuzz import sizes
from pretraining.corpus.scripted import BY_NAME, outcomes
from rewardrate.environments.cache import default_folder
from rewardrate.pretraining.corpus import drawing, mistakes, scripts
from rewardrate.pretraining.corpus.mistakes import MISTAKES


def broken(task, name, count, seed=4):
    """Scripts with that mistake; as many as the task allows in 60 draws."""
    random, found = Random(seed), []
    for _ in range(60):
        made = mistakes.make(random, BY_NAME[task], drawing.draw(random, BY_NAME[task]), name)
        if made and len(found) < count:
            found.append(made[1])
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_can_be_made_and_changes_the_script(name):
    random = Random(8)
    tries = [(brief, drawing.draw(random, brief)) for brief in BY_NAME.values() for _ in range(20)]
    made = [(brief, choices, mistakes.make(random, brief, choices, name)) for brief, choices in tries]
    done = [one for one in made if one[2]]
    assert len(done) >= 3
    for brief, choices, (said, result) in done:
        assert said == name
        assert result.text != scripts.write(brief, choices).text()


@pytest.mark.slow
@pytest.mark.parametrize("task", sizes(["leaf-flavia", "food-reviews"], every=2))
def test_mistakes_fail_as_named(task):
    rows = [(name, one) for name in MISTAKES for one in broken(task, name, 1)]
    assert len(rows) >= 10
    for (name, one), (status, message) in zip(
        rows, outcomes(task, [one.text for _, one in rows], default_folder("tasks")), strict=True
    ):
        assert status in MISTAKES[name].statuses, (name, status, message, one.text)
        if status == "error":
            assert message.split()[0] in MISTAKES[name].errors, (name, message, one.text)


def test_a_mistake_tells_where_it_struck():
    for one in broken("diamonds", "target from test", 3):
        assert one.message.startswith("KeyError at line ")
        assert one.message.endswith(": 'price'")


def test_a_misspelt_name_is_another_name():
    random = Random(0)
    assert all(mistakes.misspelt(random, name) != name for name in ("x", "carat", "Id", "a_b", "UP") for _ in range(20))
