"""Logistic regression on scaled pixels."""

import pandas as pd
from sklearn.linear_model import LogisticRegression

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
pixels = [f"p{k}" for k in range(64)]

model = LogisticRegression(C=1.0, max_iter=500)
model.fit(train[pixels] / 16, train["digit"])
test["digit"] = model.predict(test[pixels] / 16)
test[["id", "digit"]].to_csv("submission.csv", index=False)
