"""The rate that the hotel took on that day of the year before, scaled to this year's median. No pandas."""

import csv
from statistics import median

with open("data/train.csv", newline="") as file:
    rows = [(float(row["historical_adr"]), float(row["avg_price_per_room"])) for row in csv.DictReader(file)]
scale = median(now / before for before, now in rows)

with open("data/test.csv", newline="") as file, open("submission.csv", "w") as out:
    out.write("id,avg_price_per_room\n")
    for row in csv.DictReader(file):
        out.write(f"{row['id']},{scale * float(row['historical_adr']):.2f}\n")
