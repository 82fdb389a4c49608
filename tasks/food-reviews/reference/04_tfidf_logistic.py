"""Logistic regression on tf-idf of words and pairs of words."""

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

model = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, strip_accents="unicode"),
    LogisticRegression(C=3.0, max_iter=300),
)
model.fit(train["review"], train["great"])

test["great"] = model.predict_proba(test["review"])[:, 1]
test[["id", "great"]].to_csv("submission.csv", index=False)
