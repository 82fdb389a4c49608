"""A hundred trees on counts of letters and pairs of letters."""

import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

letters = CountVectorizer(analyzer="char_wb", ngram_range=(1, 2), max_features=300)
x = letters.fit_transform(train["animal_name"].fillna(""))
forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=3, n_jobs=2, random_state=0)
forest.fit(x, train["cat"])
forest.set_params(n_jobs=1)
test["cat"] = forest.predict_proba(letters.transform(test["animal_name"].fillna("")))[:, 1]
test[["id", "cat"]].to_csv("submission.csv", index=False)
