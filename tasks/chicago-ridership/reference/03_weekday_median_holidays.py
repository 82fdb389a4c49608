"""The median of each day of the week in the last year, and a Sunday's value on fixed holidays."""

import numpy as np
import pandas as pd

HOLIDAYS = {"01-01", "07-04", "12-25", "12-24", "12-31"}


def keys(dates):
    """Day of the week, with holidays (fixed ones, Thanksgiving, Memorial and Labor Day) as Sundays."""
    day = pd.to_datetime(dates)
    weekday, month = day.dt.dayofweek, day.dt.month
    fixed = day.dt.strftime("%m-%d").isin(HOLIDAYS)
    thanks = (month == 11) & (weekday == 3) & day.dt.day.between(22, 28)
    monday = (weekday == 0) & (((month == 5) & (day.dt.day > 24)) | ((month == 9) & (day.dt.day < 8)))
    return np.where(fixed | thanks | monday, 6, weekday)


train = pd.read_csv("data/train.csv", usecols=["date", "ridership"]).tail(365)
test = pd.read_csv("data/test.csv", usecols=["id", "date"])
medians = train.groupby(keys(train["date"]))["ridership"].median()
test["ridership"] = pd.Series(keys(test["date"])).map(medians)
test[["id", "ridership"]].to_csv("submission.csv", index=False)
