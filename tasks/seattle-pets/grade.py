"""Area under the ROC curve: the chance that a positive row is ranked above a negative one. Higher is better."""

import pandas as pd

from rewardrate.environments.mle import metrics


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    """ROC AUC of the column `cat`: any finite number will do, only the order counts and ties count half."""
    return metrics.roc_auc(submission, answers, "cat")
