"""Log odds of the name, its words, its ending, the postal code and the month of issue, added up."""

import numpy as np
import pandas as pd

train = pd.read_csv("data/train.csv", dtype=str).fillna("")
test = pd.read_csv("data/test.csv", dtype=str).fillna("")
cat = train["cat"].astype(int)
overall = cat.mean()


def keys(table):
    """The labels whose rates are added, each with the weight of its prior."""
    name = table["animal_name"].str.lower().str.strip()
    return {
        "name": (name, 6),
        "first": (name.str.split().str[0].fillna(""), 10),
        "ending": (name.str[-3:], 20),
        "start": (name.str[:3], 20),
        "zip": (table["zip_code"].str[:5], 20),
        "issued": (table["license_issue_date"].str[:7], 20),
    }


score = np.zeros(len(test))
asked = keys(test)
for label, (values, prior) in keys(train).items():
    groups = cat.groupby(values)
    rate = (groups.sum() + prior * overall) / (groups.count() + prior)
    score += np.log(rate / (1 - rate)).reindex(asked[label][0]).fillna(np.log(overall / (1 - overall))).to_numpy()

pd.DataFrame({"id": test["id"], "cat": 1 / (1 + np.exp(-score / 3))}).to_csv("submission.csv", index=False)
