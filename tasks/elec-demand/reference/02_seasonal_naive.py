"""Repeat the last week of the training data."""

import numpy as np
import pandas as pd

week = pd.read_csv("data/train.csv", usecols=["demand"])["demand"].to_numpy()[-7 * 48 :]
test = pd.read_csv("data/test.csv", usecols=["id"])
test["demand"] = np.resize(week, len(test))
test.to_csv("submission.csv", index=False)
