"""Least squares on the track record of the investigators and the rates of three labels; usecols skips the rest."""

import numpy as np
import pandas as pd

record = ["num_ci", "success_ci", "unsuccess_ci", "day"]
labels = ["contract_value_band", "sponsor_code", "category_code", "month", "weekday"]
train = pd.read_csv("data/train.csv", usecols=[*record, *labels, "successful"])
test = pd.read_csv("data/test.csv", usecols=["id", *record, *labels])
y = train["successful"]


def features(table):
    """A constant, the shrunken success rate of each label, and the saturated track record."""
    columns = [np.ones(len(table))]
    for label in labels:
        groups = y.groupby(train[label])
        rate = (groups.sum() + 5 * y.mean()) / (groups.count() + 5)
        columns.append(table[label].map(rate).fillna(y.mean()))
    columns += [np.log1p(table[name]) for name in record]
    columns.append((table["success_ci"] + 1) / (table["success_ci"] + table["unsuccess_ci"] + 2))
    return np.column_stack(columns)


weights, *_ = np.linalg.lstsq(features(train), y, rcond=None)
test["successful"] = features(test) @ weights
test[["id", "successful"]].to_csv("submission.csv", index=False)
