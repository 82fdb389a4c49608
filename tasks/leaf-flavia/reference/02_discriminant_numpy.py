"""Linear discriminant analysis in a few lines of numpy: shared covariance, one mean for each species."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
both = pd.get_dummies(pd.concat([train.drop(columns=["id", "species"]), test.drop(columns="id")]), dtype=float)
both = (both - both.mean()) / (both.std() + 1e-9)
x, x_test = both.to_numpy()[: len(train)], both.to_numpy()[len(train) :]

species = sorted(train["species"].unique())
label = np.searchsorted(species, train["species"])
means = np.stack([x[label == k].mean(axis=0) for k in range(len(species))])
within = x - means[label]
precision = np.linalg.inv(within.T @ within / len(x) + 0.02 * np.eye(x.shape[1]))

score = x_test @ precision @ means.T - 0.5 * np.einsum("ki,ij,kj->k", means, precision, means)
score -= score.max(axis=1, keepdims=True)
probability = np.exp(score)
probability /= probability.sum(axis=1, keepdims=True)
result = pd.DataFrame(0.995 * probability + 0.005 / len(species), columns=species)
result.insert(0, "id", test["id"])
result.to_csv("submission.csv", index=False)
