"""Logistic regression on words, pairs of words and short runs of letters."""

import pandas as pd
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

views = [
    TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
    TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=5, max_features=60_000, sublinear_tf=True),
]
x = hstack([view.fit_transform(train["text"]) for view in views]).tocsr()
x_test = hstack([view.transform(test["text"]) for view in views]).tocsr()

model = LogisticRegression(C=8.0, max_iter=200, tol=1e-3)
model.fit(x, train["section"])
submission = pd.DataFrame(model.predict_proba(x_test), columns=model.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
