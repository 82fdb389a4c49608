"""Thirty nearest flights in delay, date, time of day and distance."""

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsRegressor


def features(table):
    """Departure delay weighs most, then date and hour."""
    date = table["month"] * 30.4 + table["day"]
    return np.column_stack(
        [table["dep_delay"] / 5, date / 2, table["sched_dep_time"] / 100, table["distance"] / 200]
    ).astype(np.float32)


train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

model = KNeighborsRegressor(n_neighbors=30, algorithm="kd_tree", n_jobs=2)
model.fit(features(train), (train["arr_delay"] - train["dep_delay"]).to_numpy())
test["arr_delay"] = test["dep_delay"] + model.predict(features(test))
test[["id", "arr_delay"]].to_csv("submission.csv", index=False)
