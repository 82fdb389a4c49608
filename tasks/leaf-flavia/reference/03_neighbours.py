"""Eight nearest leaves, weighted by distance, mixed with a little of the uniform distribution."""

import pandas as pd
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
numbers = [name for name in train.select_dtypes("number").columns if name != "id"]

scaler = StandardScaler().fit(train[numbers])
model = KNeighborsClassifier(n_neighbors=8, weights="distance")
model.fit(scaler.transform(train[numbers]), train["species"])
probability = 0.98 * model.predict_proba(scaler.transform(test[numbers])) + 0.02 / len(model.classes_)

submission = pd.DataFrame(probability, columns=model.classes_)
submission.insert(0, "id", test["id"])
submission.to_csv("submission.csv", index=False)
