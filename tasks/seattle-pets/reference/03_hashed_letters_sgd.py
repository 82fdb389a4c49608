"""Hashed runs of letters and one pass of stochastic gradient descent."""

import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

train = pd.read_csv("data/train.csv", dtype={"zip_code": str}).fillna("")
test = pd.read_csv("data/test.csv", dtype={"zip_code": str}).fillna("")

letters = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=2**16, alternate_sign=False)
model = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=3, tol=None, random_state=0)
model.fit(letters.transform(train["animal_name"]), train["cat"])

test["cat"] = model.predict_proba(letters.transform(test["animal_name"]))[:, 1]
test[["id", "cat"]].to_csv("submission.csv", index=False)
