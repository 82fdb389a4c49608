"""Mean absolute error: mean(|predicted - true|). Lower is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """MAE of the column `ridership`."""
    return metrics.mae(submission, answers, "ridership")
