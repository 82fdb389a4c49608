"""A straight line of log price against log carat, read with the csv module: no pandas, no scikit-learn."""

import csv

import numpy as np

with open("data/train.csv", newline="") as file:
    rows = [(float(row["carat"]), float(row["price"])) for row in csv.DictReader(file)]
carat, price = np.log(np.array(rows)).T
slope, intercept = np.polyfit(carat, price, 1)

with open("data/test.csv", newline="") as file, open("submission.csv", "w") as out:
    out.write("id,price\n")
    for row in csv.DictReader(file):
        out.write(f"{row['id']},{np.exp(intercept + slope * np.log(float(row['carat']))):.2f}\n")
