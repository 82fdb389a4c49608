"""Multinomial naive Bayes on word counts."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

words = CountVectorizer(min_df=2)
model = MultinomialNB(alpha=0.5).fit(words.fit_transform(train["text"]), train["section"])
submission = pd.DataFrame(model.predict_proba(words.transform(test["text"])), columns=model.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
