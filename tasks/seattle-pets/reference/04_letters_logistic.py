"""Logistic regression on runs of letters, whole words, the postal code and the month of issue."""

import pandas as pd
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder


def read(path):
    """The table with the postal code cut to five digits and the date cut to the month."""
    table = pd.read_csv(path, dtype={"zip_code": str}).fillna("")
    return table.assign(zip_code=table["zip_code"].str[:5], month=table["license_issue_date"].str[:7])


train, test = read("data/train.csv"), read("data/test.csv")
letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), min_df=3)
words = TfidfVectorizer(token_pattern=r"(?u)\S+", min_df=2, use_idf=False)
labels = OneHotEncoder(handle_unknown="ignore", min_frequency=20)
columns = ["zip_code", "month"]

views = [letters.fit_transform(train["animal_name"]), words.fit_transform(train["animal_name"])]
x = hstack([*views, labels.fit_transform(train[columns])]).tocsr()
views = [letters.transform(test["animal_name"]), words.transform(test["animal_name"])]
x_test = hstack([*views, labels.transform(test[columns])]).tocsr()

model = LogisticRegression(C=1.0, max_iter=300).fit(x, train["cat"])
test["cat"] = model.predict_proba(x_test)[:, 1]
test[["id", "cat"]].to_csv("submission.csv", index=False)
