"""No words at all: the length of the review, exclamation marks and how the product did so far."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

groups = train.groupby("product")["great"].agg(["mean", "size"])
rate = groups.loc[groups["size"] >= 20, "mean"]
for table in (train, test):
    table["rate"] = table["product"].map(rate).fillna(train["great"].mean())


def features(table):
    """A constant, log length, exclamation marks, question marks and the product's rate."""
    text = table["review"]
    marks = [np.log1p(text.str.count(mark)) for mark in ("!", r"\?", " but ", " not ")]
    return np.column_stack([np.ones(len(table)), np.log(text.str.len()), *marks, table["rate"]])


weights, *_ = np.linalg.lstsq(features(train), train["great"], rcond=None)
test["great"] = (features(test) @ weights).clip(0, 1)
test[["id", "great"]].to_csv("submission.csv", index=False)
