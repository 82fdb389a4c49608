import importlib
from random import Random

import pytest

from rewardrate.pretraining.corpus import models

FAMILIES = [*models.TABULAR, *models.TEXT]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_and_setting_exists_in_scikit_learn(family):
    cls = getattr(importlib.import_module(f"sklearn.{family.module}"), family.name)
    known = cls().get_params()
    assert {setting.name for setting in family.settings} <= set(known)
    needs_probabilities = {"chance", "chances"} & set(family.answers) and family.classifies
    fitted = cls(**({"loss": "log_loss"} if family.name == "SGDClassifier" else {}))
    assert not needs_probabilities or hasattr(fitted, "predict_proba")


@pytest.mark.parametrize("answer", ["number", "label", "chance", "chances"])
def test_a_drawn_model_can_give_the_answer(answer):
    random = Random(0)
    for families in (models.TABULAR, models.TEXT):
        for _ in range(50):
            assert answer in models.draw(random, families, answer).family.answers


def test_the_text_of_a_model_is_its_constructor_call():
    ridge = next(family for family in FAMILIES if family.name == "Ridge")
    assert models.ModelTemplate(ridge, (("alpha", "1.0"),)).text == "Ridge(alpha=1.0)"
    assert models.ModelTemplate(ridge, ()).text == "Ridge()"


def test_more_trees_cost_more():
    forest = next(family for family in FAMILIES if family.name == "RandomForestRegressor")
    few, many = (models.ModelTemplate(forest, (("n_estimators", size),)).seconds(10_000, 10) for size in ("10", "500"))
    assert many == pytest.approx(50 * few)
