"""The class whose mean picture is nearest, on every row of data, with pandas for reading and numpy for the rest."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv", engine="c", dtype=np.float32).to_numpy()
test = pd.read_csv("data/test.csv", engine="c", dtype=np.float32).to_numpy()

pixels, digit = train[:, 1:-1], train[:, -1].astype(int)
means = np.stack([pixels[digit == k].mean(axis=0) for k in range(10)])
score = 2 * test[:, 1:] @ means.T - (means**2).sum(axis=1)

out = pd.DataFrame({"id": test[:, 0].astype(int), "digit": score.argmax(axis=1)})
out.to_csv("submission.csv", index=False)
