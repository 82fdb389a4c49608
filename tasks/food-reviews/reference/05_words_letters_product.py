"""Logistic regression on words, runs of letters and the product."""

import pandas as pd
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

words = TfidfVectorizer(ngram_range=(1, 3), min_df=2, sublinear_tf=True, token_pattern=r"(?u)\b\w+\b|[!?]")
letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=3, sublinear_tf=True)
product = OneHotEncoder(handle_unknown="ignore", min_frequency=20)

x = hstack(
    [
        words.fit_transform(train["review"]),
        letters.fit_transform(train["review"]),
        product.fit_transform(train[["product"]]),
    ]
)
x_test = hstack(
    [words.transform(test["review"]), letters.transform(test["review"]), product.transform(test[["product"]])]
)

model = LogisticRegression(C=5.0, max_iter=300).fit(x.tocsr(), train["great"])
test["great"] = model.predict_proba(x_test.tocsr())[:, 1]
test[["id", "great"]].to_csv("submission.csv", index=False)
