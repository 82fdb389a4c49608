"""A thousand trees on raw pixels."""

import pandas as pd
from sklearn.ensemble import RandomForestClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
pixels = [name for name in test.columns if name != "id"]

forest = RandomForestClassifier(n_estimators=1000, n_jobs=2, random_state=0)
forest.fit(train[pixels], train["digit"])
forest.set_params(n_jobs=1)
digit = forest.predict(test[pixels])
pd.DataFrame({"id": test["id"], "digit": digit}).to_csv("submission.csv", index=False)
