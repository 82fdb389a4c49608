"""Logistic regression, a discriminant, a network and trees, blended with equal weights in log probability."""

import numpy as np
import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

both = pd.concat([train.drop(columns=["id", "species"]), test.drop(columns="id")])
matrix = StandardScaler().fit_transform(pd.get_dummies(both, dtype=float))
x, x_test = matrix[: len(train)], matrix[len(train) :]

models = [
    LogisticRegression(C=10.0, max_iter=1000),
    LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.02),
    *(MLPClassifier((128,), alpha=0.01, max_iter=80, random_state=seed) for seed in range(2)),
    ExtraTreesClassifier(n_estimators=500, random_state=0),
]
logs = sum(np.log(model.fit(x, train["species"]).predict_proba(x_test).clip(1e-5)) for model in models) / len(models)
probability = np.exp(logs - logs.max(axis=1, keepdims=True))
probability /= probability.sum(axis=1, keepdims=True)

result = pd.DataFrame(probability, columns=models[0].classes_)
result.insert(0, "id", test["id"])
result.to_csv("submission.csv", index=False)
