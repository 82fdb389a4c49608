from random import Random
from typing import get_args

import pytest

from fuzz import sizes
from pretraining.corpus.scripted import BY_NAME, outcomes
from rewardrate.environments.cache import default_folder
from rewardrate.environments.mle.extraction import extract
from rewardrate.pretraining.corpus import drawing
from rewardrate.pretraining.corpus.choices import Approach
from rewardrate.pretraining.corpus.imagined import imagine
from rewardrate.pretraining.corpus.scripts import WRITERS, write


def test_every_approach_has_its_writer():
    assert set(WRITERS) == set(get_args(Approach))


def test_every_script_is_taken_as_one_by_the_environment():
    random = Random(11)
    for _ in range(300):
        brief = imagine(random)
        script = write(brief, drawing.draw(random, brief)).text()
        assert extract(script).code == script


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "count"), sizes([("digits8x8", 16), ("food-reviews", 12), ("leaf-flavia", 12)], every=3)
)
def test_scripts_that_are_meant_to_be_correct_are_graded(task, count):
    random = Random(21)
    texts = [write(BY_NAME[task], drawing.draw(random, BY_NAME[task])).text() for _ in range(count)]
    found = outcomes(task, texts, default_folder("tasks"))
    wrong = [(verdict, text) for verdict, text in zip(found, texts, strict=True) if verdict[0] not in ("ok", "no-gain")]
    assert len(wrong) <= 0.05 * count, wrong
    gained = sum(status == "ok" for status, _ in found)
    assert gained >= 0.8 * count, found
