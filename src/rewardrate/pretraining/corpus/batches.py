"""The corpus as batches of tokens: written and encoded by several processes, in an order that the seed fixes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Literal

import numpy as np

from rewardrate.pretraining.corpus import full
from rewardrate.pretraining.corpus.examples import Corpus, example

Form = Literal["compact", "full"]
PIECE = 256  # examples that one process encodes at a time
ROUND = 64  # lengths are padded to a multiple of this


@dataclass(frozen=True)
class Reading:
    """What is encoded, and how."""

    corpus: Corpus
    seed: int
    tokenizer: str
    "Folder or name."
    form: Form
    context: int
    "Longer examples are left out."
    pieces: int = 32
    "Pieces of a window: inside it, examples of like length share a batch."


@dataclass(frozen=True)
class TokenRow:
    """One example: its tokens, and where the answer begins."""

    tokens: np.ndarray
    start: int


@dataclass(frozen=True)
class TokenBatch:
    """Rows side by side, padded on the right. Shapes: [rows, length]."""

    tokens: np.ndarray
    part: np.ndarray
    "0 padding, 1 prompt, 2 answer (the end token included)."


class Encoder:
    """Turns examples into rows."""

    def __init__(self, reading: Reading) -> None:
        from transformers import AutoTokenizer

        self.reading = reading
        self.tokenizer: Any = AutoTokenizer.from_pretrained(reading.tokenizer)

    def rows(self, piece: int) -> list[TokenRow]:
        """The examples of one piece; those that are too long are left out."""
        numbers = range(piece * PIECE, (piece + 1) * PIECE)
        pairs = [self.texts(number) for number in numbers]
        starts = self._encode([prompt for prompt, _ in pairs])
        answers = self._encode([answer for _, answer in pairs])
        end = [self.tokenizer.eos_token_id]
        found = [
            TokenRow(np.array([*start, *answer, *end], dtype=np.int32), len(start))
            for start, answer in zip(starts, answers, strict=True)
        ]
        return [row for row in found if len(row.tokens) <= self.reading.context]

    def texts(self, number: int) -> tuple[str, str]:
        """Prompt, as the chat template writes it, and reply."""
        one = example(self.reading.corpus, self.reading.seed, number)
        if self.reading.form == "compact":
            chat, answer = [{"role": "user", "content": one.prompt}], one.answer
        else:
            chat, answer = full.chat(one), full.reply(one)
        return self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True), answer

    def _encode(self, texts: list[str]) -> list[list[int]]:
        found: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return found


_encoder: Encoder | None = None  # of a worker process


def _start_worker(make: Callable[[], Encoder]) -> None:
    global _encoder  # noqa: PLW0603 - a worker has one encoder for its whole life
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _encoder = make()


def _work(piece: int) -> list[TokenRow]:
    assert _encoder is not None
    return _encoder.rows(piece)


def pieces(make: Callable[[], Encoder], workers: int) -> Iterator[list[TokenRow]]:
    """Pieces 0, 1, ... without end, in order whatever the number of processes (0: this one)."""
    if not workers:
        encoder, piece = make(), 0
        while True:
            yield encoder.rows(piece)
            piece += 1
    pool = multiprocessing.get_context("spawn").Pool(workers, _start_worker, (make,))
    try:
        ahead = [pool.apply_async(_work, (piece,)) for piece in range(4 * workers)]
        piece = len(ahead)
        while True:
            found: list[TokenRow] = ahead.pop(0).get()
            ahead.append(pool.apply_async(_work, (piece,)))
            piece += 1
            yield found
    finally:
        pool.terminate()
        pool.join()


def batches(
    reading: Reading, batch_tokens: int, workers: int = 0, make: Callable[[], Encoder] | None = None
) -> Iterator[TokenBatch]:
    """Batches of at most `batch_tokens` places, padding included, without end; `make` reads another corpus."""
    source = pieces(make or partial(Encoder, reading), workers)
    window = 0
    try:
        while True:
            rows = [row for piece in islice(source, reading.pieces) for row in piece]
            yield from packed(rows, batch_tokens, Random(f"{reading.seed}/window/{window}"))
            window += 1
    finally:
        source.close()  # type: ignore[attr-defined]


def packed(rows: list[TokenRow], batch_tokens: int, random: Random) -> Iterator[TokenBatch]:
    """Rows of like length together, batches of at most so many tokens, in random order."""
    random.shuffle(rows)
    rows.sort(key=lambda row: _padded(len(row.tokens)))
    groups: list[list[TokenRow]] = [[]]
    for row in rows:
        if (len(groups[-1]) + 1) * _padded(len(row.tokens)) > batch_tokens and groups[-1]:
            groups.append([])
        groups[-1].append(row)
    random.shuffle(groups)
    yield from (_batch(group) for group in groups if group)


def _padded(length: int) -> int:
    return -(-length // ROUND) * ROUND


def _batch(rows: list[TokenRow]) -> TokenBatch:
    length = _padded(max(len(row.tokens) for row in rows))
    tokens = np.zeros((len(rows), length), dtype=np.int32)
    part = np.zeros((len(rows), length), dtype=np.int8)
    for at, row in enumerate(rows):
        tokens[at, : len(row.tokens)] = row.tokens
        part[at, : row.start] = 1
        part[at, row.start : len(row.tokens)] = 2
    return TokenBatch(tokens, part)


def sample_texts(corpus: Corpus, seed: int, count: int) -> Iterator[str]:
    """Prompts with their answers, for a tokenizer to learn from."""
    for number in range(count):
        one = example(corpus, seed, number)
        yield one.prompt + one.answer
