from collections import Counter
from random import Random

import pytest

from rewardrate.pretraining.corpus import drawing
from rewardrate.pretraining.corpus.estimates import seconds
from rewardrate.pretraining.corpus.imagined import imagine
from rewardrate.pretraining.corpus.shipped import BRIEFS

BY_NAME = {brief.task: brief for brief in BRIEFS}


def many(brief, count=300):
    random = Random(1)
    return [drawing.draw(random, brief) for _ in range(count)]


def test_the_same_seed_draws_the_same_choices():
    assert drawing.draw(Random(5), BRIEFS[0]) == drawing.draw(Random(5), BRIEFS[0])


@pytest.mark.parametrize("brief", BRIEFS, ids=lambda brief: brief.task)
def test_only_columns_that_the_prompt_names_are_chosen(brief):
    for choices in many(brief, 100):
        assert set(choices.numbers or ()) <= set(brief.listed)
        assert set(choices.categories) <= set(brief.categories)
        assert set(choices.texts) <= set(brief.texts)
        assert bool(brief.dates) or not choices.dates


def test_a_table_offers_fast_and_slow_ways():
    approaches = Counter(choices.approach for choices in many(BY_NAME["diamonds"]))
    assert {"table", "algebra", "csv-algebra", "groups", "csv-groups"} <= set(approaches)
    assert approaches["table"] > 150
    families = {choices.model.family.name for choices in many(BY_NAME["diamonds"]) if choices.approach == "table"}
    assert len(families) >= 9


def test_text_is_vectorized_as_a_rule():
    approaches = Counter(choices.approach for choices in many(BY_NAME["kjv-section"]))
    assert approaches["text"] > 200
    assert approaches["csv-words"] > 10


def test_scripts_that_are_thought_hopeless_are_rare():
    slow = [choices for choices in many(BY_NAME["flights-delay"]) if seconds(BY_NAME["flights-delay"], choices) > 30]
    assert len(slow) < 10


def test_what_cannot_go_together_is_not_chosen_together():
    random = Random(2)
    for _ in range(500):
        brief = imagine(random)
        choices = drawing.draw(random, brief)
        if choices.approach == "table":
            assert bool(choices.categories) == (choices.encoding != "raw")
            assert choices.encoding != "target-mean" or brief.answer in ("number", "chance")
            assert choices.numbers is None or choices.numbers or choices.categories or choices.dates
        if choices.approach == "text" and choices.model.family.counts:
            assert not choices.vectors.components
            assert choices.vectors.kind != "HashingVectorizer"
