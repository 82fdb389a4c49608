"""Root mean squared error: sqrt(mean((predicted - true)^2)). Lower is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """RMSE of the column `arr_delay`."""
    return metrics.rmse(submission, answers, "arr_delay")
