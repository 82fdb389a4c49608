"""The corpus: example number i of a seed is always the same, whichever process writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Annotated

from rewardrate.config import Between
from rewardrate.pretraining.corpus import drawing, mistakes, outcomes, revisions, scripts, shipped
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.imagined import imagine
from rewardrate.pretraining.corpus.shipped import HELD_OUT


@dataclass(frozen=True)
class Corpus:
    """What the corpus is made of."""

    mistakes: Annotated[float, Between(0, 1)] = 0.2
    "Share of answers with a mistake on purpose: the model that learns from them has something to unlearn."
    revisions: Annotated[float, Between(0, 1)] = 0.5
    "Share of prompts that hold a parent."
    failed_parents: Annotated[float, Between(0, 1)] = 0.22
    "Share of those parents that failed."
    shipped: Annotated[float, Between(0, 1)] = 0.35
    "Share of prompts about tasks that come with the package; the others are imagined."
    held_out: tuple[str, ...] = HELD_OUT
    "Tasks that no example is about."


@dataclass(frozen=True)
class Example:
    """One prompt and its answer."""

    brief: Brief
    choices: Choices
    prompt: str
    "The compact prompt."
    answer: str
    "The script."
    mistake: str = ""
    "Which mistake was made on purpose; empty when the answer is meant to be correct."
    parent: str = ""
    "The parent's script; empty for a base prompt."
    message: str = ""


def example(corpus: Corpus, seed: int, number: int) -> Example:
    """Example `number` of the corpus with this seed."""
    random = Random(f"{seed}/{number}")
    known = shipped.briefs(corpus.held_out)
    real = bool(known) and random.random() < corpus.shipped
    brief = random.choice(known) if real else imagine(random)
    return example_for(random, corpus, brief)


def example_for(random: Random, corpus: Corpus, brief: Brief) -> Example:
    """An example about one task."""
    if random.random() >= corpus.revisions:
        choices = drawing.draw(random, brief)
        return Example(brief, choices, brief.prompt(), *_answer(random, corpus, brief, choices))
    parent, message, choices = _parent(random, corpus, brief)
    answer, mistake = _answer(random, corpus, brief, choices)
    for _ in range(20):  # a revision that changes nothing teaches nothing
        if answer != parent:
            break
        choices = drawing.draw(random, brief)
        answer, mistake = _answer(random, corpus, brief, choices)
    return Example(
        brief=brief,
        choices=choices,
        prompt=brief.prompt(parent, message),
        answer=answer,
        mistake=mistake,
        parent=parent,
        message=message,
    )


def stream(corpus: Corpus, seed: int, start: int = 0, step: int = 1) -> Iterator[Example]:
    """Examples start, start + step, ...: several processes take turns."""
    number = start
    while True:
        yield example(corpus, seed, number)
        number += step


def _answer(random: Random, corpus: Corpus, brief: Brief, choices: Choices) -> tuple[str, str]:
    if random.random() < corpus.mistakes:
        made = mistakes.make(random, brief, choices)
        if made is not None:
            return made[1].text, made[0]
    return scripts.write(brief, choices).text(), ""


def _parent(random: Random, corpus: Corpus, brief: Brief) -> tuple[str, str, Choices]:
    """A parent's script, its message, and the choices of its revision."""
    choices = drawing.draw(random, brief)
    if random.random() < corpus.failed_parents:
        made = mistakes.make(random, brief, choices)
        if made is not None and made[1].message:
            if random.random() < 0.35:
                choices = revisions.revise(random, brief, choices)
            return made[1].text, made[1].message, choices
    text = scripts.write(brief, choices).text()
    return text, outcomes.success(random, brief, choices), revisions.revise(random, brief, choices)
