"""Least squares onto the ten indicator vectors, with a small ridge, solved in closed form."""

import numpy as np

train = np.loadtxt("data/train.csv", delimiter=",", skiprows=1)
test = np.loadtxt("data/test.csv", delimiter=",", skiprows=1)

x = np.hstack([train[:, 1:-1] / 16, np.ones((len(train), 1))])
y = np.eye(10)[train[:, -1].astype(int)]
weights = np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1]), x.T @ y)

score = np.hstack([test[:, 1:] / 16, np.ones((len(test), 1))]) @ weights
with open("submission.csv", "w") as out:
    out.write("id,digit\n")
    out.writelines(f"{int(row)},{digit}\n" for row, digit in zip(test[:, 0], score.argmax(axis=1), strict=True))
