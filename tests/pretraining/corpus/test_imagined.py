from collections import Counter
from random import Random

from rewardrate.pretraining.corpus.imagined import KINDS, imagine
from rewardrate.pretraining.corpus.shipped import BRIEFS

RANDOM = Random(0)
MANY = [imagine(RANDOM) for _ in range(1000)]


def test_all_kinds_and_answers_occur():
    assert set(Counter(brief.kind for brief in MANY)) == set(KINDS)
    assert set(Counter(brief.answer for brief in MANY)) == {"number", "label", "chance", "chances"}


def test_columns_of_a_table_have_different_names():
    for brief in MANY:
        names = [*brief.listed, *brief.words, brief.target, brief.id]
        assert len({name.lower() for name in names}) == len(names), names


def test_no_imagined_task_has_the_prompt_of_a_shipped_one():
    assert not {brief.prompt() for brief in MANY} & {brief.prompt() for brief in BRIEFS}


def test_there_is_always_something_to_learn_from():
    assert all(brief.numbers or brief.words for brief in MANY)


def test_long_lists_are_elided_as_the_prompt_does():
    for brief in MANY:
        assert len(brief.numbers) <= 12
        assert brief.many == (brief.columns > 12)
