import pytest

from rewardrate.attempt import Parent
from rewardrate.environments.mle import load
from rewardrate.environments.mle.folder import shipped
from rewardrate.environments.mle.preparation import prepare
from rewardrate.environments.mle.prompts import build
from rewardrate.pretraining.corpus.shipped import BRIEFS, HELD_OUT, briefs


@pytest.mark.parametrize("brief", BRIEFS, ids=lambda brief: brief.task)
def test_a_brief_says_what_the_real_prompt_says(brief, tmp_path):
    task = load(brief.task)
    if not task.prepared:
        task = load(brief.task, data=tmp_path)
        prepare(task)
    assert build(task, compact=True)[0]["content"] == brief.prompt()
    parent = Parent('print("""x""")\n', "score 1 (x) in 2.00 s")
    assert build(task, parent, compact=True)[0]["content"] == brief.prompt(parent.code, parent.message)


def test_every_shipped_task_has_a_brief():
    assert {brief.task for brief in BRIEFS} == set(shipped())


def test_one_task_of_each_modality_is_held_out():
    assert sorted(brief.kind for brief in BRIEFS if brief.task in HELD_OUT) == ["image", "series", "tabular", "text"]
    assert not {brief.task for brief in briefs()} & set(HELD_OUT)
