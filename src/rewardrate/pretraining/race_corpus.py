"""The catalogue of a race as a corpus: prompts of the race and replies with edits, for a small model to begin with.

Example i of a seed is always the same. A parent is the baseline or a seed script after up to three changes, its result
made up; the answer is one more change from the catalogue, a share of them mistakes on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Annotated

from rewardrate.attempt import Parent
from rewardrate.config import AtLeast, Between
from rewardrate.environments.speedrun import catalogue, hardware, messages, prompts, race, seeds
from rewardrate.errors import InputError
from rewardrate.pretraining.corpus import batches as plain
from rewardrate.pretraining.corpus.batches import Encoder, Reading, TokenBatch


@dataclass(frozen=True)
class RaceCorpus:
    """What the corpus of a race is made of."""

    races: tuple[str, ...] = ("nanogpt-mini",)
    "Names or folders, all equally often; the prompt names its race."
    mistakes: Annotated[float, Between(0, 1)] = 0.15
    "Share of answers that fail on purpose."
    settings: Annotated[float, Between(0, 1)] = 0.4
    "Share of the other answers that change a setting; the rest change a mechanism."
    changes: Annotated[int, AtLeast(0)] = 3
    "The most changes that a parent has been through."
    seeds: Annotated[float, Between(0, 1)] = 0.5
    "Share of parents that descend from a seed script; the others from the baseline."
    unrun: Annotated[float, Between(0, 1)] = 0.1
    "Share of prompts that show the baseline before it was ever run, as a run's first prompt does."

    def __post_init__(self) -> None:
        if not self.races:
            raise InputError("race.races", list(self.races), "there must be at least one", "for example nanogpt-mini")


@dataclass(frozen=True)
class RaceExample:
    """One prompt and its reply."""

    parent: Parent
    prompt: str
    "The compact prompt."
    answer: str
    entry: str
    "Which change it is."


def example(corpus: RaceCorpus, seed: int, number: int, *, compact: bool = True) -> RaceExample:
    """Example `number` of the corpus with this seed."""
    random = Random(f"race/{seed}/{number}")
    rules, scripts = _race(corpus.races[0] if len(corpus.races) == 1 else random.choice(corpus.races))
    if corpus.unrun and random.random() < corpus.unrun:
        code, result = rules.baseline, messages.UNRUN
    else:
        start = random.choice(scripts) if random.random() < corpus.seeds else rules.baseline
        code = catalogue.descend(random, start, random.randint(0, corpus.changes))
        result = _result(random, rules)
    parent = Parent(code, result)
    found = None
    while found is None:  # every kind fits the baseline, so this ends
        found = catalogue.suggest(random, code, (_kind(random, corpus),))
        code = parent.code if found else rules.baseline
        parent = Parent(code, parent.message)
    (asked,) = prompts.proposal(rules, parent, hardware.here(), direct=True, compact=compact)
    return RaceExample(parent, asked["content"], found.reply(), found.entry.name)


def batches(corpus: RaceCorpus, reading: Reading, batch_tokens: int, workers: int = 0) -> Iterator[TokenBatch]:
    """Batches of at most `batch_tokens` places, padding included, without end, in an order that the seed fixes."""
    return plain.batches(reading, batch_tokens, workers, partial(_Encoder, corpus, reading))


def sample_texts(corpus: RaceCorpus, seed: int, count: int) -> Iterator[str]:
    """Prompts with their answers, for a tokenizer to learn from."""
    for number in range(count):
        one = example(corpus, seed, number)
        yield one.prompt + one.answer


class _Encoder(Encoder):
    """Turns examples of the race into rows."""

    def __init__(self, corpus: RaceCorpus, reading: Reading) -> None:
        super().__init__(reading)
        self.race_corpus = corpus

    def texts(self, number: int) -> tuple[str, str]:
        """Prompt, as the chat template writes it, and reply."""
        one = example(self.race_corpus, self.reading.seed, number, compact=self.reading.form == "compact")
        chat = [{"role": "user", "content": one.prompt}]
        return self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), one.answer


@cache
def _race(name: str) -> tuple[race.Race, tuple[str, ...]]:
    rules = race.load(name)
    scripts = tuple(rules.with_constants(seed.code) for seed in seeds.read(rules.seeds, rules))
    return rules, scripts or (rules.baseline,)


def _kind(random: Random, corpus: RaceCorpus) -> catalogue.Kind:
    if random.random() < corpus.mistakes:
        return "mistake"
    return "setting" if random.random() < corpus.settings else "mechanism"


def _result(random: Random, rules: race.Race) -> str:
    """A result such as the referee tells it."""
    loss = rules.target_loss + random.gauss(0.01, 0.05)
    seconds = rules.cap_seconds * random.uniform(0.15, 0.7)
    return messages.success(rules, loss, loss, seconds, timed_out=False)
