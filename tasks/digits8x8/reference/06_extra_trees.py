"""Two thousand extremely random trees."""

import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
pixels = [f"p{k}" for k in range(64)]

forest = ExtraTreesClassifier(n_estimators=2000, n_jobs=2, random_state=0)
forest.fit(train[pixels], train["digit"])
forest.set_params(n_jobs=1)
test["digit"] = forest.predict(test[pixels])
test[["id", "digit"]].to_csv("submission.csv", index=False)
