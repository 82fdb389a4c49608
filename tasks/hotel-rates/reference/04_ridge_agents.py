"""Ridge regression on the log rate with the agent, company and country as one-hot columns, and month by room type."""

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

train = pd.read_csv("data/train.csv")
test = pd.read_csv("data/test.csv")
for table in (train, test):
    table["country"] = table["country"].fillna("none")
    table["month_room"] = table["arrival_date"].str[5:7] + table["reserved_room_type"]
    table["month_segment"] = table["arrival_date"].str[5:7] + table["market_segment"]
    table["log_lead"] = np.log1p(table["lead_time"])

labels = ["month_room", "month_segment", "agent", "company", "country", "meal", "customer_type", "assigned_room_type"]
numbers = [name for name in test.select_dtypes("number").columns if name != "id"]
encode = make_column_transformer(
    (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore", min_frequency=5), labels)
)
model = make_pipeline(encode, Ridge(alpha=3.0))
model.fit(train[numbers + labels], np.log(train["avg_price_per_room"]))

test["avg_price_per_room"] = np.exp(model.predict(test[numbers + labels]))
test[["id", "avg_price_per_room"]].to_csv("submission.csv", index=False)
