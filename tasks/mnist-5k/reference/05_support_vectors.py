"""Support vectors with a radial kernel on sixty principal components."""

import pandas as pd
from sklearn.decomposition import PCA
from sklearn.svm import SVC

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

pca = PCA(n_components=60, svd_solver="randomized", random_state=0)
x = pca.fit_transform(train.iloc[:, 1:-1].to_numpy() / 255)
model = SVC(C=5.0, gamma=0.02).fit(x, train["digit"])

digit = model.predict(pca.transform(test.iloc[:, 1:].to_numpy() / 255))
pd.DataFrame({"id": test["id"], "digit": digit}).to_csv("submission.csv", index=False)
