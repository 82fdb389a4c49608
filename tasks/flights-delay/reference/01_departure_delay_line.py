"""A straight line from the departure delay to the arrival delay."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv", usecols=["dep_delay", "arr_delay"])
slope, intercept = np.polyfit(train["dep_delay"], train["arr_delay"], 1)

test = pd.read_csv("data/test.csv", usecols=["id", "dep_delay"])
test["arr_delay"] = intercept + slope * test["dep_delay"]
test[["id", "arr_delay"]].to_csv("submission.csv", index=False)
