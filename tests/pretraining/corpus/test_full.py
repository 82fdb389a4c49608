import re

import pytest

from pretraining.corpus.scripted import BY_NAME
from rewardrate.attempt import Parent
from rewardrate.environments.mle import load, prompts
from rewardrate.environments.mle.extraction import extract
from rewardrate.environments.mle.preparation import prepare
from rewardrate.pretraining.corpus import Corpus, example, full


def lines_of(text):
    """A prompt without what only the data decide."""
    return [re.sub(r"`[^`]*`|\d[\d,.]*", "_", line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def leaf(tmp_path_factory):
    task = load("leaf-flavia")
    if not task.prepared:
        task = load("leaf-flavia", data=tmp_path_factory.mktemp("data"))
        prepare(task)
    return task


@pytest.mark.parametrize("with_parent", [False, True])
def test_the_full_prompt_is_in_the_words_of_the_environment(leaf, with_parent):
    one = next(
        one
        for one in (example(Corpus(shipped=1.0), 0, number) for number in range(500))
        if one.brief.task == "leaf-flavia" and bool(one.parent) == with_parent
    )
    real = prompts.build(leaf, Parent(one.parent, one.message) if with_parent else None)
    ours = full.chat(one)
    assert ours[0] == real[0]
    mine, theirs = lines_of(ours[1]["content"]), lines_of(real[1]["content"])
    assert mine[:7] == theirs[:7]
    kept = [line for line in theirs if line.startswith("- ") and "Installed" not in line and "folder" not in line]
    assert set(kept) <= set(mine)
    assert mine[-1] == theirs[-1] or not with_parent


def test_the_script_of_a_reply_is_the_answer():
    for number in range(100):
        one = example(Corpus(mistakes=0.0), 5, number)
        found = extract(full.reply(one))
        assert found.code == one.answer
        assert 2 <= found.plan.count(". ") + 1 <= 6


def test_the_table_is_shown_with_all_its_words():
    from random import Random

    text = full.snippet(Random(0), BY_NAME["diamonds"])
    assert all(f"{name} (" in text for name in ("carat", "cut", "color", "clarity", "price"))
