"""Multi-class logarithmic loss: -mean(log(probability given to the true class)). Lower is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """Log loss of one probability column per class, clipped to [1e-15, 1] and then scaled so that a row sums to 1."""
    return metrics.log_loss(submission, answers, "species")
