"""Accuracy: the share of rows whose predicted class is the true one. Higher is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """Share of rows whose `digit` is right; a number that is no class is a wrong answer."""
    return metrics.accuracy(submission, answers, "digit")
