"""For each half-hour and kind of day, a parabola in the temperature, fitted with numpy."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
for table in (train, test):
    table["slot"] = table["time"].str[11:]

test["demand"] = 0.0
groups = train.groupby(["slot", "workday"])
for key, rows in test.groupby(["slot", "workday"]).groups.items():
    known = groups.get_group(key)
    curve = np.polyfit(known["temperature"] - 18, known["demand"], 2)
    test.loc[rows, "demand"] = np.polyval(curve, test.loc[rows, "temperature"] - 18)

test[["id", "demand"]].to_csv("submission.csv", index=False)
