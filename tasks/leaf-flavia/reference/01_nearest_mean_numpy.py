"""Distance to the mean of each species in scaled measures, turned into probabilities. numpy and csv only."""

import csv

import numpy as np


def read(path):
    """The rows as dictionaries."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


train, test = read("data/train.csv"), read("data/test.csv")
numbers = [name for name in list(test[0]) if name != "id" and train[0][name][:1].isdigit()]
x = np.array([[float(row[name]) for name in numbers] for row in train])
x_test = np.array([[float(row[name]) for name in numbers] for row in test])
centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
x, x_test = (x - centre) / spread, (x_test - centre) / spread

label = np.array([row["species"] for row in train])
species = sorted(set(label))
means = np.stack([x[label == name].mean(axis=0) for name in species])
score = -((x_test[:, None] - means[None]) ** 2).sum(axis=2) / 8
probability = np.exp(score - score.max(axis=1, keepdims=True))
probability = 0.99 * probability / probability.sum(axis=1, keepdims=True) + 0.01 / len(species)

with open("submission.csv", "w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["id", *species])
    for row, values in zip(test, probability, strict=True):
        out.writerow([row["id"], *np.round(values, 6)])
