"""Departure delay plus shrunken means of what is left: by day, by destination and by carrier and hour in turn."""

import pandas as pd

columns = ["month", "day", "sched_dep_time", "dep_delay", "carrier", "origin", "dest"]
train = pd.read_csv("data/train.csv", usecols=[*columns, "arr_delay"])
test = pd.read_csv("data/test.csv", usecols=["id", *columns])

for table in (train, test):
    table["hour"] = table["sched_dep_time"] // 100
    table["late"] = table["dep_delay"].clip(lower=-20, upper=60) // 10

left = train["arr_delay"] - train["dep_delay"]
test["arr_delay"] = test["dep_delay"] + left.mean()
left = left - left.mean()

for keys in (["month", "day"], ["origin", "dest"], ["carrier", "hour"], ["late"], ["month", "day", "dest"]):
    groups = left.groupby([train[key] for key in keys])
    shift = (groups.sum() / (groups.count() + 10)).rename("shift").reset_index()
    left = left - train[keys].merge(shift, on=keys, how="left")["shift"].to_numpy()
    test["arr_delay"] += test[keys].merge(shift, on=keys, how="left")["shift"].fillna(0.0).to_numpy()

test[["id", "arr_delay"]].to_csv("submission.csv", index=False)
