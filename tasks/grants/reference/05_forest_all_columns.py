"""Three hundred extremely random trees on all columns."""

import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
features = [name for name in test.columns if name != "id"]

for name in test.select_dtypes(exclude="number").columns:
    rate = train.groupby(name)["successful"].mean()
    train[name], test[name] = train[name].map(rate), test[name].map(rate).fillna(0.5)

forest = ExtraTreesClassifier(n_estimators=300, min_samples_leaf=2, max_features=60, n_jobs=2, random_state=0)
forest.fit(train[features], train["successful"])
forest.set_params(n_jobs=1)
score = forest.predict_proba(test[features])[:, 1]
pd.DataFrame({"id": test["id"], "successful": score}).to_csv("submission.csv", index=False)
