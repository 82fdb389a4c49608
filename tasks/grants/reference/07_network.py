"""Five small networks on saturated counts and one-hot labels, averaged."""

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
y = train["successful"]

both = pd.concat([train.drop(columns=["id", "successful"]), test.drop(columns="id")])
numbers = both.select_dtypes("number").clip(upper=30) ** 0.5
both = np.hstack([numbers / numbers.max().clip(lower=1), pd.get_dummies(both.select_dtypes(exclude="number"))])
x, x_test = both[: len(train)].astype(np.float32), both[len(train) :].astype(np.float32)

score = np.zeros(len(test))
for seed in range(5):
    network = MLPClassifier((64,), alpha=0.05, max_iter=10, learning_rate_init=0.002, tol=0.0, random_state=seed)
    score += network.fit(x, y).predict_proba(x_test)[:, 1]

pd.DataFrame({"id": test["id"], "successful": score / 5}).to_csv("submission.csv", index=False)
