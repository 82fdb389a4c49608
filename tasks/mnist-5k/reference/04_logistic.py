"""Logistic regression on fifty principal components."""

import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
x = train.drop(columns=["id", "digit"]) / 255

model = make_pipeline(PCA(n_components=50, random_state=0), LogisticRegression(C=0.3, max_iter=300))
model.fit(x, train["digit"])
digit = model.predict(test.drop(columns="id") / 255)
pd.DataFrame({"id": test["id"], "digit": digit}).to_csv("submission.csv", index=False)
