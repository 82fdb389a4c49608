"""Logistic regression, a network and tempered naive Bayes, blended by the geometric mean of their probabilities."""

import numpy as np
import pandas as pd
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
y = train["section"]

words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), min_df=5, max_features=40_000, sublinear_tf=True)
x_words, x_test_words = words.fit_transform(train["text"]), words.transform(test["text"])
x = hstack([x_words, letters.fit_transform(train["text"])]).tocsr()
x_test = hstack([x_test_words, letters.transform(test["text"])]).tocsr()

logistic = LogisticRegression(C=8.0, max_iter=100, tol=1e-3).fit(x, y)
bayes = MultinomialNB(alpha=0.1).fit(x_words, y)
network = MLPClassifier((32,), max_iter=4, learning_rate_init=0.003, batch_size=128, tol=0.0, random_state=0)
network.fit(x_words, y)

logs = (
    0.5 * np.log(logistic.predict_proba(x_test))
    + 0.35 * np.log(network.predict_proba(x_test_words).clip(1e-6))
    + 0.3 * bayes.predict_log_proba(x_test_words)
)
probability = np.exp(logs - logs.max(axis=1, keepdims=True))
probability /= probability.sum(axis=1, keepdims=True)
submission = pd.DataFrame(probability, columns=logistic.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
