from random import Random

from pretraining.corpus.scripted import BY_NAME
from rewardrate.pretraining.corpus import drawing, revisions
from rewardrate.pretraining.corpus.estimates import quality, seconds


def pairs(task, count=200):
    random, brief = Random(6), BY_NAME[task]
    parents = [drawing.draw(random, brief) for _ in range(count)]
    return [(parent, revisions.revise(random, brief, parent)) for parent in parents]


def test_a_revision_changes_something():
    assert sum(parent == child for parent, child in pairs("diamonds")) < 4


def test_revisions_are_seldom_worse_and_slower():
    brief = BY_NAME["diamonds"]
    found = pairs("diamonds")
    worse = sum(
        quality(brief, child) < quality(brief, parent) and seconds(brief, child) > seconds(brief, parent)
        for parent, child in found
    )
    better = sum(
        quality(brief, child) > quality(brief, parent) or seconds(brief, child) < seconds(brief, parent)
        for parent, child in found
    )
    assert worse < 0.1 * len(found)
    assert better > 4 * worse


def test_a_revision_keeps_what_variables_are_called():
    assert all(parent.style == child.style for parent, child in pairs("leaf-flavia"))
