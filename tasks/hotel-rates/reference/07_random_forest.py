"""Five hundred trees on the log rate, labels replaced by their mean log rate."""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
y = np.log(train.pop("avg_price_per_room"))

for table in (train, test):
    table["day_of_year"] = pd.to_datetime(table["arrival_date"]).dt.dayofyear
    table.drop(columns="arrival_date", inplace=True)
for name in train.select_dtypes(exclude="number").columns:
    groups = y.groupby(train[name].fillna("none"))
    means = (groups.sum() + 10 * y.mean()) / (groups.count() + 10)
    for table in (train, test):
        table[name] = table[name].fillna("none").map(means).astype(float).fillna(y.mean())

features = [name for name in test.columns if name != "id"]
forest = RandomForestRegressor(n_estimators=500, min_samples_leaf=2, max_features=0.4, n_jobs=2, random_state=0)
forest.fit(train[features], y)
forest.set_params(n_jobs=1)
test["avg_price_per_room"] = np.exp(forest.predict(test[features]))
test[["id", "avg_price_per_room"]].to_csv("submission.csv", index=False)
