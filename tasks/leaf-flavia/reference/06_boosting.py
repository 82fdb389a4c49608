"""Boosting with 32 trees a round: a long wait."""

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
features = [name for name in test.columns if name != "id"]

both = pd.concat([train[features], test[features]])
words = both.select_dtypes(exclude="number").columns
both[words] = both[words].astype("category")

model = HistGradientBoostingClassifier(max_iter=120, learning_rate=0.1, max_leaf_nodes=8, random_state=0)
model.fit(both.iloc[: len(train)], train["species"])
table = pd.DataFrame(model.predict_proba(both.iloc[len(train) :]), columns=model.classes_)
pd.concat([test["id"], table], axis=1).to_csv("submission.csv", index=False)
