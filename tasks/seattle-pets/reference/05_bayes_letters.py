"""Naive Bayes on runs of letters and whole words."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline, make_union

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

letters = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=2, binary=True)
words = CountVectorizer(token_pattern=r"(?u)\S+", binary=True)
model = make_pipeline(make_union(letters, words), MultinomialNB(alpha=1.0))
model.fit(train["animal_name"].fillna(""), train["cat"])
test["cat"] = model.predict_proba(test["animal_name"].fillna(""))[:, 1]
test[["id", "cat"]].to_csv("submission.csv", index=False)
