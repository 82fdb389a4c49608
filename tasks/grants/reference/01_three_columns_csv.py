"""Success rates of value band, sponsor and month, read with the csv module; the other 1500 columns are not touched."""

import csv
import math
from collections import Counter

LABELS = ["contract_value_band", "sponsor_code", "month"]

won, seen = Counter(), Counter()
with open("data/train.csv", newline="") as file:
    rows = csv.reader(file)
    place = {name: k for k, name in enumerate(next(rows))}
    for row in rows:
        for label in LABELS:
            key = label, row[place[label]]
            seen[key] += 1
            won[key] += row[place["successful"]] == "1"

with open("data/test.csv", newline="") as file, open("submission.csv", "w") as out:
    rows = csv.reader(file)
    place = {name: k for k, name in enumerate(next(rows))}
    out.write("id,successful\n")
    for row in rows:
        rates = [(won[label, row[place[label]]] + 2) / (seen[label, row[place[label]]] + 4) for label in LABELS]
        score = sum(math.log(rate / (1 - rate)) for rate in rates)
        out.write(f"{row[place['id']]},{1 / (1 + math.exp(-score)):.6f}\n")
