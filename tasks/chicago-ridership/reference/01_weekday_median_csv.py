"""The median of each day of the week over the last year of training, with the standard library only."""

import csv
from collections import defaultdict
from datetime import date
from statistics import median

riders = defaultdict(list)
with open("data/train.csv", newline="") as file:
    for row in list(csv.DictReader(file))[-365:]:
        riders[date.fromisoformat(row["date"]).weekday()].append(float(row["ridership"]))
middle = {day: median(values) for day, values in riders.items()}

with open("data/test.csv", newline="") as file, open("submission.csv", "w") as out:
    out.write("id,ridership\n")
    for row in csv.DictReader(file):
        out.write(f"{row['id']},{middle[date.fromisoformat(row['date']).weekday()]}\n")
