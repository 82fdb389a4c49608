import math

import numpy as np
import pandas as pd
import pytest

from rewardrate.environments.mle import metrics


def frames(said, true, column="y"):
    ids = list(range(len(true)))
    return pd.DataFrame({"id": ids, column: said}), pd.DataFrame({"id": ids, column: true})


def test_accuracy_compares_numbers_as_numbers_and_words_as_words():
    assert metrics.accuracy(*frames([1.0, 2.0, 3.0], [1, 2, 4]), "y") == pytest.approx(2 / 3)
    assert metrics.accuracy(*frames(["cat", "dog"], ["cat", "cow"]), "y") == 0.5


def test_roc_auc_counts_ties_half():
    assert metrics.roc_auc(*frames([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1]), "y") == (4 - 0.5) / 4


def test_errors_of_regression_are_their_formulas():
    said, true = np.array([1.0, 2.0, 5.0]), np.array([1.0, 4.0, 4.0])
    assert metrics.rmse(*frames(said, true), "y") == pytest.approx(math.sqrt(5 / 3))
    assert metrics.mae(*frames(said, true), "y") == pytest.approx(1.0)
    expected = math.sqrt(np.mean((np.log1p(said) - np.log1p(true)) ** 2))
    assert metrics.rmsle(*frames(said, true), "y") == pytest.approx(expected)
    assert metrics.rmsle(*frames([-5.0], [0.0]), "y") == 0, "a negative prediction counts as 0"


def test_numbers_too_large_to_be_squared_give_no_warning_and_no_finite_score():
    assert metrics.rmse(*frames([1e300], [0.0]), "y") == math.inf
    assert math.isfinite(metrics.mae(*frames([1e300], [0.0]), "y"))


def probabilities(rows, labels):
    ids = list(range(len(labels)))
    return pd.DataFrame({"id": ids, **rows}), pd.DataFrame({"id": ids, "y": labels})


def test_log_loss_scales_rows_and_clips():
    loss = metrics.log_loss(*probabilities({"a": [1.0, 0.2], "b": [0.0, 0.2]}, ["a", "b"]), "y")
    assert loss == pytest.approx(math.log(2) / 2)
    nothing = metrics.log_loss(*probabilities({"a": [0.0], "b": [0.0]}, ["a"]), "y")
    assert nothing == pytest.approx(math.log(2)), "a row without any probability counts as not knowing"
    worst = metrics.log_loss(*probabilities({"a": [0.0], "b": [1.0]}, ["a"]), "y")
    assert worst == pytest.approx(-math.log(1e-15), rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ({"a": [7.0], "b": [0.0]}, "and one is 7"),
        ({"a": [-3.0], "b": [1.0]}, "is -3"),
    ],
)
def test_what_is_no_probability_is_refused_with_its_value(rows, why):
    with pytest.raises(ValueError, match=why):
        metrics.log_loss(*probabilities(rows, ["a"]), "y")


def test_a_class_without_a_column_and_a_number_that_is_none_are_refused():
    with pytest.raises(ValueError, match="no column for the class 'c'"):
        metrics.log_loss(*probabilities({"a": [1.0]}, ["c"]), "y")
    with pytest.raises(ValueError, match="finite numbers only"):
        metrics.rmse(*frames([math.nan], [1.0]), "y")


def test_rows_are_matched_by_id_not_by_place():
    said, true = frames([3.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    said["id"] = [2, 0, 1]
    assert metrics.mae(said, true, "y") == 0
    said["id"] = [2, 0, 0]
    with pytest.raises(ValueError, match=r"every id of test\.csv exactly once"):
        metrics.mae(said, true, "y")
