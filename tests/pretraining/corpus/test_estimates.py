from dataclasses import replace
from random import Random

from rewardrate.pretraining.corpus import drawing, estimates, models
from rewardrate.pretraining.corpus.shipped import BRIEFS

DIAMONDS = next(brief for brief in BRIEFS if brief.task == "diamonds")


def table(**changes):
    random = Random(0)
    choices = next(one for one in iter(lambda: drawing.draw(random, DIAMONDS), None) if one.approach == "table")
    return replace(choices, rows="all", count=0, numbers=None, categories=(), keep=0, encoding="raw", **changes)


def test_rows_that_are_left_out_are_not_counted():
    choices = table()
    assert estimates.rows_used(DIAMONDS, choices) == 43595
    assert estimates.rows_used(DIAMONDS, replace(choices, rows="every", count=10)) == 4359
    assert estimates.rows_used(DIAMONDS, replace(choices, rows="nrows", count=500)) == 500


def test_one_hot_columns_are_wider():
    narrow = replace(table(), categories=("cut",), encoding="codes")
    wide = replace(narrow, encoding="dummies")
    assert estimates.columns_used(DIAMONDS, wide) > estimates.columns_used(DIAMONDS, narrow)


def test_a_script_without_scikit_learn_starts_sooner():
    choices = table()
    assert estimates.seconds(DIAMONDS, replace(choices, approach="csv-groups", count=500, rows="first")) < 1
    assert estimates.seconds(DIAMONDS, choices) > 1.3


def test_fewer_rows_are_faster_and_a_little_worse():
    forest = next(family for family in models.TABULAR if family.name == "RandomForestRegressor")
    whole = table(model=models.ModelTemplate(forest, (("n_estimators", "100"),)))
    part = replace(whole, rows="sample", count=1000)
    assert estimates.seconds(DIAMONDS, part) < estimates.seconds(DIAMONDS, whole)
    assert 0 < estimates.quality(DIAMONDS, part) < estimates.quality(DIAMONDS, whole) <= 1
