"""Estimators by name."""

import pytest

from rewardrate.errors import InputError
from rewardrate.rates import NIW, make


def test_an_estimator_is_made_by_name_with_its_settings():
    estimator = make("niw", forgetting=0.5, seed=3)
    assert isinstance(estimator, NIW)
    assert (estimator.forgetting, estimator.seed) == (0.5, 3)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("nwi", {}, "did you mean 'niw'"),
        ("niw", {"forgeting": 0.5}, "did you mean 'forgetting'"),
        ("totals", {"forgetting": "much"}, "forgetting = 'much'"),
    ],
)
def test_a_wrong_name_setting_or_type_is_one_clear_error(kind, settings, words):
    with pytest.raises(InputError, match=words):
        make(kind, **settings)
