"""Ten nearest stones in log carat and scaled grades."""

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsRegressor

CUT = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
COLOR = ["J", "I", "H", "G", "F", "E", "D"]
CLARITY = ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]


def features(table):
    """Log carat counts most; one step of a grade counts a little."""
    return np.column_stack(
        [
            8 * np.log(table["carat"]),
            0.25 * table["cut"].map(CUT.index),
            0.5 * table["color"].map(COLOR.index),
            0.7 * table["clarity"].map(CLARITY.index),
        ]
    )


train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

model = KNeighborsRegressor(n_neighbors=10, weights="distance")
model.fit(features(train), np.log(train["price"]))
test["price"] = np.exp(model.predict(features(test)))
test[["id", "price"]].to_csv("submission.csv", index=False)
