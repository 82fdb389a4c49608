"""Revisions: a script, what its attempt was told, and choices that should do better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from rewardrate.pretraining.corpus import drawing, models
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.estimates import quality, seconds

Change = Callable[[Random, Brief, Choices], Choices]
CANDIDATES = 4
TIME_WEIGHTS = (0.0, 0.02, 0.1)  # what a second more may cost in quality; 0 looks at the score alone


def _model(random: Random, brief: Brief, c: Choices) -> Choices:
    return replace(c, model=drawing.draw_model(random, brief, c.approach))


def _settings(random: Random, brief: Brief, c: Choices) -> Choices:
    return replace(c, model=models.settled(random, c.model.family))


def _rows(random: Random, brief: Brief, c: Choices) -> Choices:
    rows, count = drawing.draw_rows(random, brief)
    return replace(c, rows=rows, count=count)


def _columns(random: Random, brief: Brief, c: Choices) -> Choices:
    return replace(
        c,
        numbers=drawing.draw_numbers(random, brief),
        categories=drawing.draw_some(random, brief.categories, 0.8),
        dates=drawing.draw_dates(random, brief),
    )


def _encoding(random: Random, brief: Brief, c: Choices) -> Choices:
    fresh = drawing.draw_freely(random, brief)
    return replace(c, encoding=fresh.encoding, scaling=fresh.scaling, vectors=fresh.vectors, narrow=fresh.narrow)


def _target(random: Random, brief: Brief, c: Choices) -> Choices:
    if brief.answer == "number" and "logarithmic" in brief.metric:
        return replace(c, log=not c.log)
    return _settings(random, brief, c)


def _approach(random: Random, brief: Brief, c: Choices) -> Choices:
    return replace(drawing.draw_freely(random, brief), style=c.style)


CHANGES: dict[str, tuple[Change, float]] = {
    "model": (_model, 3.0),
    "settings": (_settings, 2.0),
    "rows": (_rows, 1.2),
    "columns": (_columns, 1.5),
    "encoding": (_encoding, 1.2),
    "target": (_target, 0.4),
    "approach": (_approach, 1.5),
}


def revise(random: Random, brief: Brief, choices: Choices) -> Choices:
    """The parent's choices with one or two of them drawn anew: as a rule the best of a few, by score, time or both."""
    found = [_changed(random, brief, choices) for _ in range(CANDIDATES)]
    found = [one for one in found if one != choices] or [_approach(random, brief, choices)]
    if random.random() < 0.25:
        return drawing.settle(random, brief, found[0])
    weight = random.choice(TIME_WEIGHTS)
    return max(found, key=lambda one: quality(brief, one) - weight * seconds(brief, one))


def _changed(random: Random, brief: Brief, choices: Choices) -> Choices:
    names, weights = list(CHANGES), [weight for _, weight in CHANGES.values()]
    for name in random.choices(names, weights, k=random.choice((1, 1, 2))):
        choices = CHANGES[name][0](random, brief, choices)
    return drawing.settle(random, brief, choices)
