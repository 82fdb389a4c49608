"""Six hundred trees on the two thousand commonest words."""

import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

words = TfidfVectorizer(max_features=2000, sublinear_tf=True)
forest = RandomForestClassifier(n_estimators=600, min_samples_leaf=2, n_jobs=2, random_state=0)
forest.fit(words.fit_transform(train["review"]), train["great"])
forest.set_params(n_jobs=1)
test["great"] = forest.predict_proba(words.transform(test["review"]))[:, 1]
test[["id", "great"]].to_csv("submission.csv", index=False)
