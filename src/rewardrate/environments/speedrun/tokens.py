"""A small byte-pair tokenizer of our own: 256 bytes, the end of a document, and merges learnt from a text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

END = 0  # the end of a document; byte b is token b + 1
BYTES = 256
WORD = re.compile(rb" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Tokenizer:
    """Text to tokens by applying the merges of a word in the order in which they were learnt."""

    merges: tuple[Pair, ...]
    "The n-th merge makes token 257 + n out of two earlier ones."
    _ranks: dict[Pair, int] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[bytes, tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._ranks.update({pair: rank for rank, pair in enumerate(self.merges)})

    @property
    def size(self) -> int:
        """Number of tokens."""
        return 1 + BYTES + len(self.merges)

    def encode(self, text: str) -> list[int]:
        """Tokens of one document, without its end."""
        found: list[int] = []
        for word in WORD.findall(text.encode("utf-8")):
            if word not in self._known:
                self._known[word] = self._merge(word)
            found += self._known[word]
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text again; bytes that are no UTF-8 are replaced."""
        return b"".join(self._bytes(token) for token in tokens).decode("utf-8", "replace")

    def _bytes(self, token: int) -> bytes:
        if token <= BYTES:
            return b"" if token == END else bytes([token - 1])
        left, right = self.merges[token - BYTES - 1]
        return self._bytes(left) + self._bytes(right)

    def _merge(self, word: bytes) -> tuple[int, ...]:
        symbols = [byte + 1 for byte in word]
        while len(symbols) > 1:
            rank, at = min((self._ranks.get(pair, len(self.merges)), at) for at, pair in enumerate(pairwise(symbols)))
            if rank == len(self.merges):
                break
            symbols[at : at + 2] = [BYTES + 1 + rank]
        return tuple(symbols)


def learn(documents: Iterable[str], size: int) -> Tokenizer:
    """A tokenizer of at most `size` tokens: the commonest pair of neighbours becomes a token, again and again.

    Ties go to the smaller pair, so the same text gives the same tokenizer everywhere.
    """
    counts: Counter[bytes] = Counter()
    for document in documents:
        counts.update(WORD.findall(document.encode("utf-8")))
    words = [[byte + 1 for byte in word] for word in counts]
    weights = list(counts.values())
    pairs: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for number, word in enumerate(words):
        _count(word, weights[number], number, pairs, where)
    merges: list[Pair] = []
    while 1 + BYTES + len(merges) < size and pairs:
        most = max(pairs.values())
        if most < 2:
            break
        best = min(pair for pair, count in pairs.items() if count == most)
        merges.append(best)
        for number in sorted(where.pop(best)):
            _count(words[number], -weights[number], number, pairs, None)
            words[number] = _joined(words[number], best, BYTES + len(merges))
            _count(words[number], weights[number], number, pairs, where)
        del pairs[best]
    return Tokenizer(tuple(merges))


def _count(
    word: list[int], weight: int, number: int, pairs: Counter[Pair], where: defaultdict[Pair, set[int]] | None
) -> None:
    for pair in pairwise(word):
        pairs[pair] += weight
        if where is not None:
            where[pair].add(number)


def _joined(word: list[int], pair: Pair, token: int) -> list[int]:
    joined, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            joined.append(token)
            at += 2
        else:
            joined.append(word[at])
            at += 1
    return joined
