"""Naive Bayes on word counts."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import ComplementNB

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

words = CountVectorizer(min_df=3, binary=True)
model = ComplementNB(alpha=1.0).fit(words.fit_transform(train["review"]), train["great"])
test["great"] = model.predict_proba(words.transform(test["review"]))[:, 1]
test[["id", "great"]].to_csv("submission.csv", index=False)
