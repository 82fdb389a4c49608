"""Read 1500 pictures, pool them to 7 x 7, and solve ten least-squares problems at once."""

import numpy as np
import pandas as pd


def pooled(table):
    """Mean of each block of 4 x 4 pixels, its square, and a constant."""
    pictures = table.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(table), 49) / 255
    return np.hstack([pictures, pictures**2, np.ones((len(table), 1))])


train = pd.read_csv("data/train.csv", nrows=1500).to_numpy()
test = pd.read_csv("data/test.csv").to_numpy()

x, y = pooled(train[:, 1:-1]), np.eye(10)[train[:, -1]]
weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]) * 0.5, x.T @ y)
digit = (pooled(test[:, 1:]) @ weights).argmax(axis=1)
pd.DataFrame({"id": test[:, 0], "digit": digit}).to_csv("submission.csv", index=False)
