"""How the choices behind a script are drawn, and what cannot be chosen together."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

from rewardrate.pretraining.corpus import models
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import (
    STYLES,
    Approach,
    Choices,
    Encoding,
    Rows,
    Scaling,
    Validation,
    Vectorizer,
    Vectors,
    Writing,
)
from rewardrate.pretraining.corpus.estimates import rows_used, seconds
from rewardrate.pretraining.corpus.models import ModelTemplate

ROW_COUNTS = (500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000, 100_000)
ENCODINGS: tuple[Encoding, ...] = ("dummies", "codes", "ordinal", "one-hot", "one-hot", "target-mean")
SCALINGS: tuple[Scaling, ...] = ("none", "none", "standard", "standard", "min-max")
VALIDATIONS: tuple[Validation, ...] = ("none", "print", "refit")
WRITINGS: tuple[Writing, ...] = ("assign", "frame", "frame", "sample")
PARTS: tuple[Rows, ...] = ("nrows", "nrows", "sample", "sample", "first", "last", "every")
RECENT: tuple[Rows, ...] = ("last", "last", "last", "sample", "every")
PATIENCE_SECONDS = 25.0  # a script that is thought to take longer is drawn again, as a rule


def draw(random: Random, brief: Brief) -> Choices:
    """Choices that make a correct script for the brief, and one that ends soon, as a rule."""
    for _ in range(6):
        choices = settle(random, brief, draw_freely(random, brief))
        if seconds(brief, choices) < PATIENCE_SECONDS * random.uniform(0.1, 1.2):
            break
    return choices


def draw_freely(random: Random, brief: Brief) -> Choices:
    """Choices for every field, each by itself; `settle` makes them fit together."""
    approach = _approach(random, brief)
    rows, count = draw_rows(random, brief)
    return Choices(
        approach=approach,
        style=random.choice(STYLES),
        numbers=draw_numbers(random, brief),
        categories=draw_some(random, brief.categories, 0.75),
        dates=draw_dates(random, brief),
        texts=draw_some(random, brief.texts, 1.0),
        rows=rows,
        count=count,
        narrow=random.random() < 0.25,
        encoding=random.choice(ENCODINGS),
        scaling=random.choice(SCALINGS),
        keep=random.choice((5, 10, 15, 20, 30, 50)) if random.random() < 0.08 else 0,
        model=draw_model(random, brief, approach),
        log=brief.answer == "number" and "logarithmic" in brief.metric and random.random() < 0.75,
        validation=random.choices(VALIDATIONS, (0.84, 0.1, 0.06))[0],
        writing=random.choice(WRITINGS),
        vectors=draw_vectors(random),
        middle="median" if _robust(brief) or random.random() < 0.2 else "mean",
    )


def _robust(brief: Brief) -> bool:
    """Whether the metric is one that a median serves better than a mean."""
    return brief.answer == "number" and ("absolute" in brief.metric or "logarithmic" in brief.metric)


def _approach(random: Random, brief: Brief) -> Approach:
    """Which way to go, among those that the brief's columns and answer allow."""
    answer = brief.answer
    shares: dict[Approach, float] = {}
    numbers, groups = bool(brief.numbers), bool(brief.categories or brief.dates)
    if numbers or brief.categories or brief.dates:
        shares["table"] = 1.0 if brief.kind != "text" else 0.08
    if brief.texts:
        shares["text"] = 1.5
        if answer != "number":
            shares["csv-words"] = 0.22
    if numbers:
        shares["algebra"] = 0.14 if brief.kind != "series" else 0.04
        if answer in ("label", "chances"):
            shares["centres"] = 0.08
        if brief.listed or not brief.words:
            shares["csv-algebra"] = 0.14 if brief.kind != "series" else 0.04
    if groups and answer in ("number", "chance"):
        shares["groups"] = shares["csv-groups"] = 0.12
    shares["constant"] = 0.02
    return random.choices(list(shares), list(shares.values()))[0]


def settle(random: Random, brief: Brief, choices: Choices) -> Choices:
    """The choices without what cannot be had together, so that the script that follows is correct."""
    c = choices
    family = c.model.family
    if c.approach == "text" and not any(family is one for one in models.TEXT):
        c = replace(c, model=models.draw(random, models.TEXT, brief.answer))
    if c.approach == "table":
        c = _settle_table(random, brief, c)
    if c.approach in ("algebra", "centres", "csv-algebra") and c.numbers is not None and not c.numbers:
        c = replace(c, numbers=brief.listed[:4])
    if c.approach == "csv-algebra" and c.numbers is None and brief.words:
        c = replace(c, numbers=brief.listed)
    if c.approach in ("groups", "csv-groups") and not c.categories and not c.dates:
        c = replace(c, categories=brief.categories[:1], dates=date_parts(brief)[:1])
    if c.approach == "text":
        if c.model.family.counts and c.vectors.kind == "HashingVectorizer":
            c = replace(c, vectors=Vectors("CountVectorizer", (("min_df", "2"),)))
        if c.model.family.counts and c.vectors.components:
            c = replace(c, vectors=replace(c.vectors, components=0))
    if brief.answer == "chances" and c.rows != "all":  # a class that is not among the rows would have no column
        c = replace(c, rows="sample", count=max(c.count, brief.rows // 2))
    return c


def _settle_table(random: Random, brief: Brief, c: Choices) -> Choices:
    if "absolute" in brief.metric and c.model.family.name == "HistGradientBoostingRegressor" and random.random() < 0.5:
        others = tuple(one for one in c.model.settings if one[0] != "loss")
        c = replace(c, model=replace(c.model, settings=(("loss", '"absolute_error"'), *others)))
    if c.numbers is not None and not c.numbers and not c.categories and not c.dates:
        c = replace(c, numbers=None if brief.numbers else (), categories=brief.categories, dates=date_parts(brief))
    family = c.model.family
    if family.scaled and c.scaling == "none" and random.random() < 0.75:
        c = replace(c, scaling="standard")
    if not family.scaled and c.scaling != "none" and random.random() < 0.7:
        c = replace(c, scaling="none")
    if not c.categories:
        c = replace(c, encoding="raw")
    elif c.encoding == "raw":
        c = replace(c, encoding="codes")
    wide = c.encoding == "dummies" or (c.encoding == "one-hot" and family.dense)
    if wide and rows_used(brief, c) > 50_000 and random.random() < 0.85:  # a label may have thousands of values
        c = replace(c, encoding="codes")
    if c.encoding == "target-mean" and brief.answer not in ("number", "chance"):
        c = replace(c, encoding="ordinal")
    if c.encoding == "ordinal" and any(name in brief.gaps for name in c.categories):
        c = replace(c, encoding="codes")
    least = len(c.numbers) + len(c.dates) if c.numbers is not None else brief.columns
    if c.keep and (c.encoding == "one-hot" or c.keep >= least):
        c = replace(c, keep=0)
    return c


def draw_model(random: Random, brief: Brief, approach: Approach) -> ModelTemplate:
    """A model for the approach. Parts of a date are no line's business: for series, trees come more often."""
    families = models.TEXT if approach == "text" else models.TABULAR
    model = models.draw(random, families, brief.answer)
    if brief.kind == "series" and model.family.module not in ("ensemble", "tree") and random.random() < 0.85:
        return models.draw(random, families, brief.answer)
    return model


def draw_numbers(random: Random, brief: Brief) -> tuple[str, ...] | None:
    """All number columns, or some of those that the prompt names."""
    names = brief.listed
    if not names or (brief.kind == "series" and random.random() < 0.25):
        return ()
    if random.random() < (0.95 if brief.kind == "image" else 0.7 if brief.many else 0.2):
        return None
    if random.random() < 0.45 or len(names) < 3:
        return names
    return draw_some(random, names, 1.0)


def draw_some(random: Random, names: tuple[str, ...], share: float) -> tuple[str, ...]:
    """With that share some of the names, in their order, else none; all of them in half of the cases."""
    if not names or random.random() >= share:
        return ()
    if random.random() < 0.5 or len(names) == 1:
        return names
    chosen = set(random.sample(range(len(names)), random.randint(1, len(names) - 1)))
    return tuple(name for at, name in enumerate(names) if at in chosen)


def date_parts(brief: Brief) -> tuple[str, ...]:
    """What a date column can tell."""
    if not brief.dates:
        return ()
    return ("hour", "dayofweek", "month", "dayofyear", "year")[0 if brief.has_time else 1 :]


def draw_dates(random: Random, brief: Brief) -> tuple[str, ...]:
    """Parts of the date, or none of them."""
    parts = date_parts(brief)
    if brief.kind == "series" and random.random() < 0.65:
        return parts
    return draw_some(random, parts[:-1] if random.random() < 0.5 else parts, 0.95 if brief.kind == "series" else 0.8)


def draw_rows(random: Random, brief: Brief) -> tuple[Rows, int]:
    """All rows, or a part of them, and how large a part; of large tables more often a part."""
    counts = [count for count in ROW_COUNTS if count < brief.rows]
    share = 0.55 if brief.rows > 50_000 else 0.3 if brief.rows > 8000 or brief.kind == "series" else 0.15
    if not counts or random.random() > share:
        return "all", 0
    rows = random.choice(PARTS if brief.kind != "series" else RECENT)
    count = random.choice(counts[-6:])
    return rows, random.choice((2, 3, 4, 5, 10)) if rows == "every" else count


def draw_vectors(random: Random) -> Vectors:
    """A vectorizer with its settings."""
    kind = random.choices(get_args(Vectorizer), (0.65, 0.28, 0.07))[0]
    letters = random.random() < 0.22
    settings = []
    if letters:
        settings += [("analyzer", random.choice(('"char_wb"', '"char_wb"', '"char"')))]
        settings += [("ngram_range", random.choice(("(2, 4)", "(1, 3)", "(2, 3)", "(2, 5)", "(3, 5)")))]
    elif random.random() < 0.35:
        settings += [("ngram_range", random.choice(("(1, 2)", "(1, 2)", "(1, 3)")))]
    if kind == "HashingVectorizer":
        settings += [("n_features", random.choice(("2**14", "2**16", "2**18")))]
    else:
        if random.random() < 0.4:
            settings += [("min_df", random.choice(("2", "3", "5")))]
        if random.random() < 0.4:
            settings += [("max_features", random.choice(("1000", "2000", "5000", "10000", "20000", "50000")))]
    if kind == "TfidfVectorizer" and random.random() < 0.35:
        settings += [("sublinear_tf", "True")]
    if kind == "CountVectorizer" and random.random() < 0.25:
        settings += [("binary", "True")]
    if not letters and random.random() < 0.15:
        settings += [("stop_words", '"english"')]
    components = random.choice((20, 50, 100, 200)) if random.random() < 0.08 else 0
    return Vectors(kind, tuple(settings), components, random.random() < 0.5)
