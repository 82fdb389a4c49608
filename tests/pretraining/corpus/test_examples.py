import time
from itertools import islice

from rewardrate.pretraining.corpus import HELD_OUT, Corpus, example, stream

MANY = [example(Corpus(), 0, number) for number in range(1500)]


def share(what):
    return sum(map(bool, map(what, MANY))) / len(MANY)


def test_the_same_seed_and_number_give_the_same_example():
    assert example(Corpus(), 3, 17) == example(Corpus(), 3, 17)
    assert example(Corpus(), 3, 17) != example(Corpus(), 4, 17)


def test_processes_that_take_turns_write_the_same_corpus():
    alone = list(islice(stream(Corpus(), 1), 6))
    first, second = (list(islice(stream(Corpus(), 1, start, 2), 3)) for start in (0, 1))
    assert alone == [one for pair in zip(first, second, strict=True) for one in pair]


def test_half_of_the_prompts_hold_a_parent():
    assert abs(share(lambda one: one.parent) - 0.5) < 0.05


def test_as_many_answers_have_a_mistake_as_the_config_says():
    assert abs(share(lambda one: one.mistake) - Corpus().mistakes) < 0.04
    assert not any(example(Corpus(mistakes=0.0), 0, number).mistake for number in range(100))


def test_held_out_tasks_are_never_spoken_of():
    assert not {one.brief.task for one in MANY} & set(HELD_OUT)
    text = "\n".join(one.prompt + one.answer for one in MANY)
    assert not [name for name in HELD_OUT if name in text]


def test_a_revision_is_not_its_parent():
    assert not any(one.parent == one.answer for one in MANY)


def test_prompts_end_where_the_answer_begins():
    for one in MANY[:200]:
        assert one.prompt.endswith("# better:\n" if one.parent else f"{','.join(one.brief.submission)}\n")


def test_writing_is_fast():
    began = time.process_time()
    for number in range(500):
        example(Corpus(), 9, number)
    assert 500 / (time.process_time() - began) > 250  # about 2,000 a second on an idle core; this one may be busy
