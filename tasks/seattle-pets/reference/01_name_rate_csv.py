"""How often a name was a cat's so far, with the standard library only."""

import csv
from collections import Counter

cats, pets = Counter(), Counter()
with open("data/train.csv", newline="", encoding="utf-8") as file:
    for row in csv.DictReader(file):
        name = row["animal_name"].strip().lower()
        pets[name] += 1
        cats[name] += row["cat"] == "1"
overall = sum(cats.values()) / sum(pets.values())

with open("data/test.csv", newline="", encoding="utf-8") as file, open("submission.csv", "w") as out:
    out.write("id,cat\n")
    for row in csv.DictReader(file):
        name = row["animal_name"].strip().lower()
        out.write(f"{row['id']},{(cats[name] + 4 * overall) / (pets[name] + 4):.5f}\n")
