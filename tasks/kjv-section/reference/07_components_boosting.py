"""A hundred latent components of the words, then boosting. The components lose the rare words that decide."""

import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

latent = make_pipeline(TfidfVectorizer(min_df=3, sublinear_tf=True), TruncatedSVD(100, random_state=0))
x = latent.fit_transform(train["text"])
model = HistGradientBoostingClassifier(max_iter=100, learning_rate=0.15, max_leaf_nodes=15, random_state=0)
model.fit(x, train["section"])

probability = model.predict_proba(latent.transform(test["text"]))
submission = pd.DataFrame(probability, columns=model.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
