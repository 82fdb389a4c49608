"""Boosting on every fifth row: most of the signal for little of the time."""

import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

train = pd.read_csv("data/train.csv").iloc[::5]
test = pd.read_csv("data/test.csv")

for name in ["carrier", "origin", "dest"]:
    codes = {value: k for k, value in enumerate(sorted(train[name].unique()))}
    train[name] = train[name].map(codes)
    test[name] = test[name].map(codes)

features = ["month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "carrier", "origin", "dest", "distance"]
model = HistGradientBoostingRegressor(max_iter=100, random_state=0)
model.fit(train[features], train["arr_delay"])

test["arr_delay"] = model.predict(test[features])
test[["id", "arr_delay"]].to_csv("submission.csv", index=False)
