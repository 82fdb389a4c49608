"""Metrics for a task's grade.py: each takes the two tables and the column to judge, aligns rows by id, and scores.

The numbers are scikit-learn's. A value that the metric cannot judge (a probability of 7) is a ValueError whose sentence
reaches the model that wrote the submission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_PROBABILITY = 1e-15
ROUNDING = 1e-6  # how far a probability may leave [0, 1] by arithmetic


def accuracy(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """Share of rows whose label is right. Higher is better."""
    from pandas.api.types import is_numeric_dtype

    truth, said = answers[column], aligned(submission, answers, id)[column]
    if is_numeric_dtype(truth):
        return float(np.mean(numbers(said) == truth.to_numpy(dtype=float)))
    return float(np.mean(said.astype(str).to_numpy() == truth.astype(str).to_numpy()))


def roc_auc(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """Area under the ROC curve of a score for the class 1; ties count half. Higher is better."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answers[column].to_numpy(dtype=int), numbers(aligned(submission, answers, id)[column])))


def log_loss(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """-mean(log p(true class)): one column of probabilities for each class, rows scaled to sum 1. Lower is better.

    Probabilities are clipped to [1e-15, 1] first, so that a certain mistake costs 34.5 and not infinity.
    """
    classes = [name for name in submission.columns if name != id]
    ordered = aligned(submission, answers, id)
    table = np.column_stack([numbers(ordered[name]) for name in classes])
    wrong = (table < -ROUNDING) | (table > 1 + ROUNDING)
    if wrong.any():
        raise ValueError(f"a probability must lie between 0 and 1, and one is {table[wrong][0]:g}")
    table = np.clip(table, SMALLEST_PROBABILITY, 1.0)
    table /= table.sum(axis=1, keepdims=True)
    place = {name: at for at, name in enumerate(classes)}
    try:
        right = [place[str(label)] for label in answers[column]]
    except KeyError as error:
        raise ValueError(f"there is no column for the class {error}") from None
    return float(-np.mean(np.log(table[np.arange(len(right)), right])))


def rmse(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """sqrt(mean((predicted - true)^2)). Lower is better."""
    from sklearn.metrics import root_mean_squared_error

    with np.errstate(over="ignore"):  # a sum that overflows is infinite, and refused by the caller
        return float(root_mean_squared_error(answers[column], numbers(aligned(submission, answers, id)[column])))


def rmsle(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """sqrt(mean((log(1 + predicted) - log(1 + true))^2)); a negative prediction counts as 0. Lower is better."""
    from sklearn.metrics import root_mean_squared_log_error

    predicted = numbers(aligned(submission, answers, id)[column]).clip(min=0.0)
    return float(root_mean_squared_log_error(answers[column], predicted))


def mae(submission: pd.DataFrame, answers: pd.DataFrame, column: str, id: str = "id") -> float:
    """mean(|predicted - true|). Lower is better."""
    from sklearn.metrics import mean_absolute_error

    with np.errstate(over="ignore"):
        return float(mean_absolute_error(answers[column], numbers(aligned(submission, answers, id)[column])))


def aligned(submission: pd.DataFrame, answers: pd.DataFrame, id: str = "id") -> pd.DataFrame:
    """The submission in the order of the answers; fails unless it holds each of their ids exactly once."""
    if submission[id].duplicated().any() or set(submission[id]) != set(answers[id]):
        raise ValueError(f"the submission must hold every {id} of test.csv exactly once, and no other")
    return submission.set_index(id).loc[answers[id].to_numpy()]


def numbers(column: pd.Series[Any]) -> np.ndarray:
    """The column as finite floats."""
    import pandas as pd

    values: np.ndarray = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    if not np.isfinite(values).all():
        raise ValueError(f"column {column.name!r} must hold finite numbers only")
    return values
