"""Support vectors with a radial kernel."""

import pandas as pd
from sklearn.svm import SVC

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")

model = SVC(C=5.0, gamma=0.0012).fit(train.iloc[:, 1:-1].to_numpy(), train["digit"])
prediction = model.predict(test.iloc[:, 1:].to_numpy())
pd.DataFrame({"id": test["id"], "digit": prediction}).to_csv("submission.csv", index=False)
