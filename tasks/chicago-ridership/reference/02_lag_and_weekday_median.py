"""Halfway between the riders of two weeks ago and the median of that day of the week."""

import pandas as pd

train = pd.read_csv("data/train.csv", usecols=["date", "ridership"]).tail(2 * 365)
test = pd.read_csv("data/test.csv", usecols=["id", "date", "Clark_Lake"])

weekday = pd.to_datetime(train["date"]).dt.dayofweek
usual = pd.to_datetime(test["date"]).dt.dayofweek.map(train.groupby(weekday)["ridership"].median())

test["ridership"] = 0.5 * usual + 0.5 * test["Clark_Lake"]
test[["id", "ridership"]].to_csv("submission.csv", index=False)
