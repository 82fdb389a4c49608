"""Root mean squared logarithmic error: sqrt(mean((log(1 + predicted) - log(1 + true))^2)). Lower is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """RMSLE of the column `price`; a negative prediction counts as 0."""
    return metrics.rmsle(submission, answers, "price")
