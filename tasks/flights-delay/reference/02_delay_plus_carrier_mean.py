"""Departure delay plus the mean time that the carrier makes up in the air; the csv module and 60,000 rows only."""

import csv
from collections import defaultdict
from itertools import islice

lost, count = defaultdict(float), defaultdict(int)
with open("data/train.csv", newline="") as file:
    for row in islice(csv.DictReader(file), 60_000):
        key = row["carrier"], row["month"]
        lost[key] += float(row["arr_delay"]) - float(row["dep_delay"])
        count[key] += 1
overall = sum(lost.values()) / sum(count.values())

with open("data/test.csv", newline="") as file, open("submission.csv", "w") as out:
    out.write("id,arr_delay\n")
    for row in csv.DictReader(file):
        key = row["carrier"], row["month"]
        shift = (lost[key] + 20 * overall) / (count[key] + 20) if key in count else overall
        out.write(f"{row['id']},{float(row['dep_delay']) + shift:.3f}\n")
