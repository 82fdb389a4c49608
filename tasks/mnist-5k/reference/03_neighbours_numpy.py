"""One nearest neighbour after a slight blur: a single matrix product."""

import numpy as np
import pandas as pd


def blurred(flat):
    """Each picture averaged with its shifts by one pixel, then scaled to unit length."""
    pictures = np.pad(flat.reshape(-1, 28, 28).astype(np.float32), ((0, 0), (1, 1), (1, 1)))
    rows = pictures[:, :-2] + 2 * pictures[:, 1:-1] + pictures[:, 2:]
    both = (rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]).reshape(len(flat), -1)
    return both / np.linalg.norm(both, axis=1, keepdims=True)


train = pd.read_csv("data/train.csv").to_numpy()
test = pd.read_csv("data/test.csv").to_numpy()

likeness = blurred(test[:, 1:]) @ blurred(train[:, 1:-1]).T
digit = train[likeness.argmax(axis=1), -1]
pd.DataFrame({"id": test[:, 0], "digit": digit}).to_csv("submission.csv", index=False)
