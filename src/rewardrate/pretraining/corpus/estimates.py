"""Rough guesses of a script's seconds and quality: enough to call one revision of it better than another."""

from __future__ import annotations

import math

from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices

START_SECONDS = {"sklearn": 1.3, "pandas": 0.5, "numpy": 0.2, "stdlib": 0.1}
"An interpreter with these imports, on one core."
QUALITIES = {
    "algebra": 0.5,
    "centres": 0.4,
    "groups": 0.3,
    "csv-groups": 0.3,
    "csv-algebra": 0.48,
    "csv-words": 0.5,
    "constant": 0.0,
}
CELL_SECONDS = 1.2e-7  # to read one value of a table


def rows_used(brief: Brief, choices: Choices) -> int:
    """How many training rows are left of those that there are."""
    if choices.rows == "all":
        return brief.rows
    return brief.rows // choices.count if choices.rows == "every" else min(choices.count, brief.rows)


def columns_used(brief: Brief, choices: Choices) -> int:
    """How many columns the model meets, one-hot labels counted as five each."""
    numbers = brief.columns if choices.numbers is None else len(choices.numbers)
    wide = 5 if choices.encoding in ("dummies", "one-hot") else 1
    return max(1, choices.keep or numbers + wide * len(choices.categories) + len(choices.dates))


def seconds(brief: Brief, choices: Choices) -> float:
    """Roughly how long the script takes on one core."""
    rows = rows_used(brief, choices)
    cells = brief.rows * (brief.columns + 4 * len(brief.words) + 60 * len(brief.texts))
    reading = CELL_SECONDS * cells * (3 if choices.approach.startswith("csv") else 1)
    if choices.rows == "nrows":
        reading *= rows / brief.rows
    if choices.approach == "table":
        trees = brief.classes if "Boosting" in choices.model.family.name else 1
        return START_SECONDS["sklearn"] + reading + trees * choices.model.seconds(rows, columns_used(brief, choices))
    if choices.approach == "text":
        letters = any(name == "analyzer" for name, _ in choices.vectors.settings)
        columns = choices.vectors.components or (120 if letters else 40)
        vectors = rows * (4e-4 if letters else 1e-4) * (1 + choices.vectors.components / 10)
        slow = 20 if "Forest" in choices.model.family.name else 1
        return START_SECONDS["sklearn"] + reading + vectors + slow * choices.model.seconds(rows, columns)
    start = START_SECONDS["pandas"]
    if choices.approach.startswith("csv"):
        start = START_SECONDS["numpy" if choices.approach == "csv-algebra" else "stdlib"]
    return start + reading


def quality(brief: Brief, choices: Choices) -> float:
    """Roughly how good its predictions are, 0 (the sample submission) to 1."""
    if choices.approach not in ("table", "text"):
        found = QUALITIES[choices.approach]
    else:
        found = choices.model.quality
        if choices.approach == "table" and choices.model.family.scaled and choices.scaling == "none":
            found -= 0.15
        if choices.validation == "print":
            found -= 0.01
        if choices.vectors.components and choices.approach == "text":
            found -= 0.08
    if choices.log and "logarithmic" in brief.metric:
        found += 0.06
    share = rows_used(brief, choices) / brief.rows
    known = len(brief.listed) + len(brief.words)
    used = brief.columns if choices.numbers is None else len(choices.numbers)
    part = (used + len(choices.categories) + len(choices.dates)) / max(1, brief.columns + known - len(brief.listed))
    if choices.approach == "text":
        part = 1.0
    return max(0.0, min(1.0, found + 0.05 * math.log10(share) - 0.2 * (1 - min(1.0, part)) ** 2))
