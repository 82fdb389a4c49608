"""Logistic regression on tf-idf of single words."""

import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

model = make_pipeline(TfidfVectorizer(min_df=2, sublinear_tf=True), LogisticRegression(C=6.0, max_iter=300))
model.fit(train["text"], train["section"])

submission = pd.DataFrame(model.predict_proba(test["text"]), columns=model.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
