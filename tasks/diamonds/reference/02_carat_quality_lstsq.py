"""Least squares on log carat and the three grades, written as ordered numbers. numpy and pandas only."""

import numpy as np
import pandas as pd

GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def design(table):
    """Columns 1, log carat, its square, and each grade as its rank."""
    log_carat = np.log(table["carat"].to_numpy())
    ranks = [table[name].map({grade: k for k, grade in enumerate(order)}) for name, order in GRADES.items()]
    return np.column_stack([np.ones(len(table)), log_carat, log_carat**2, *ranks])


columns = ["carat", "cut", "color", "clarity"]
train = pd.read_csv("data/train.csv", usecols=[*columns, "price"])
test = pd.read_csv("data/test.csv", usecols=["id", *columns])

weights, *_ = np.linalg.lstsq(design(train), np.log(train["price"].to_numpy()), rcond=None)
test["price"] = np.exp(design(test) @ weights)
test[["id", "price"]].to_csv("submission.csv", index=False)
