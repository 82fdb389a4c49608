"""Which documents are hidden: drawn for each installation from a key of its own, so that no script can carry them.

The key also gives every attempt its random seed. It lies beside the shards, closed to others, and no box shows it.
Whoever keeps it makes the same shards again; whoever copies it to another machine has the same split there.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rewardrate.environments.speedrun.shards import Tokens
from rewardrate.errors import InputError

KEY = "split.key"
KEY_BYTES = 32
SHARE = 16  # one document in so many is validation for all to see, and one in so many for the referee alone
EXCHANGES = 20_000
ALIKE = 0.003  # nats a token
PREFIXES = ((8_192, 0.5), (65_536, 1.0))  # tokens of a validation pass of the shipped races, and the weight of each
ORDERS = (1, 2, 4)  # of the n-gram models that measure how hard a document is
LEVEL = (-0.0155, -0.0053, -0.0544)  # of each above the whole text, nats: what targets and results were measured on
PRIOR = 4.0  # their pseudo-counts of the next lower order
Numbers = NDArray[np.int64]
Nats = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Numbers of the documents of each part, in the order of their tokens."""

    train: tuple[int, ...]
    public: tuple[int, ...]
    hidden: tuple[int, ...]

    @property
    def name(self) -> str:
        """Eight characters that tell splits apart and give nothing away."""
        return hashlib.sha256(repr((self.train, self.public, self.hidden)).encode()).hexdigest()[:8]


def key(folder: Path) -> bytes:
    """The key of this installation, made when there is none. InputError when it cannot be read or written."""
    path = folder / KEY
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            _make(path)
        found = path.read_bytes()
    except OSError as error:
        rule = f"the key of its hidden tokens cannot be read or made ({error.strerror})"
        raise InputError("data", str(path), rule, "give a folder that can be written: --data DIR") from None
    if len(found) != KEY_BYTES:
        raise InputError("data", str(path), f"it must hold {KEY_BYTES} bytes, and has {len(found)}", "remove it")
    return found


def _make(path: Path) -> None:
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
    try:
        os.link(part, path)  # whole, and the first of several that are made at once
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def attempt_seed(key: bytes, code: str, number: int) -> int:
    """The random seed of the n-th run of a script: always the same one, and not to be known without the key.

    A script that holds its own seed is another script, and has another seed.
    """
    text = f"{number}\0{code}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hmac.digest(key, text, "sha256")[:8], "big") % 2**31


def draw(streams: Sequence[Tokens], key: bytes) -> Split:
    """The split of this installation: drawn by its key, then documents are exchanged until the parts are alike.

    Open and hidden tokens should be equally hard, and as hard as those of other installations, for weak models and
    better ones: measured by n-gram models that have seen all other documents, over what a validation pass reads.
    """
    hardness = Hardness(difficulty(streams), [len(stream) for stream in streams])
    held = len(streams) // SHARE
    random = np.random.default_rng(int.from_bytes(hmac.digest(key, b"split", "sha256"), "big"))
    order = random.permutation(len(streams))
    best = hardness.unlike(order, held)
    for _ in range(min(EXCHANGES, 4 * held**2)):  # of few documents all keys would find the same best split
        if best < ALIKE:
            break
        one, other = random.integers(2 * held), random.integers(len(streams))
        order[[one, other]] = order[[other, one]]
        found = hardness.unlike(order, held)
        if found <= best:
            best = found
        else:
            order[[one, other]] = order[[other, one]]
    numbers = order.tolist()
    return Split(tuple(numbers[2 * held :]), tuple(numbers[:held]), tuple(numbers[held : 2 * held]))


class Hardness:
    """How hard the documents are for models of several orders, and how unlike that makes two parts."""

    def __init__(self, nats: Sequence[Nats], lengths: Sequence[int]) -> None:
        self._lengths = np.array(lengths)
        self._before = [np.concatenate((np.zeros((1, one.shape[1])), np.cumsum(one, axis=0))) for one in nats]
        self._totals = np.array([one[-1] for one in self._before])
        self._level = self._totals.sum(axis=0) / max(1, int(self._lengths.sum())) + LEVEL

    def unlike(self, order: Numbers, held: int) -> float:
        """The largest difference, in nats a token, between the open part, the hidden part and the level for all."""
        found = 0.0
        for tokens, weight in PREFIXES:
            first = self._above(order[:held], tokens)
            second = self._above(order[held : 2 * held], tokens)
            found = max(found, weight * float(np.abs([first - second, first, second]).max()))
        return found

    def _above(self, part: Numbers, tokens: int) -> Nats:
        """Mean nats of the first tokens of documents in this order, above the level for all, for each model.

        Where there are fewer, one more: a part too short for a validation pass is kept only where all parts are.
        """
        ends = np.cumsum(self._lengths[part])
        whole = int(np.searchsorted(ends, tokens, side="right"))
        total = self._totals[part[:whole]].sum(axis=0)
        if whole == len(part):
            found: Nats = total / max(1, int(self._lengths[part].sum())) - self._level + 1.0
            return found
        rest = tokens - (int(ends[whole - 1]) if whole else 0)
        mean: Nats = (total + self._before[part[whole]][rest]) / tokens - self._level
        return mean


def difficulty(streams: Sequence[Tokens]) -> list[Nats]:
    """Nats of every token under an interpolated n-gram model of all other documents.

    p_n(token | context) = (count(context, token) + PRIOR p_{n-1}(token | shorter context))
                           / (count(context) + PRIOR)
    """
    lengths = [len(stream) for stream in streams]
    tokens = np.concatenate(streams).astype(np.int64)
    size = int(tokens.max()) + 1
    document = np.repeat(np.arange(len(streams)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    chance = np.full(len(tokens), 1.0 / size)
    context = np.zeros(len(tokens), dtype=np.int64)
    nats = []
    for order in range(max(ORDERS)):
        known = place >= order
        gram = np.unique(context * size + tokens, return_inverse=True)[1]
        found = (_others(gram, document) + PRIOR * chance) / (_others(context, document) + PRIOR)
        chance = np.where(known, found, chance)
        nats += [-np.log(chance)] if order + 1 in ORDERS else []
        # The gram that ends before a token is its context of the next order, if it begins in the same document.
        context = np.where(place > order, np.concatenate(([0], gram[:-1])), int(gram.max()) + 1)
    return np.split(np.stack(nats, axis=1), np.cumsum(lengths)[:-1])


def _others(kind: Numbers, document: Numbers) -> Numbers:
    """How often each item's kind occurs in other documents than its own."""
    _, own, counts = np.unique(document * (int(kind.max()) + 1) + kind, return_inverse=True, return_counts=True)
    everywhere: Numbers = np.bincount(kind)[kind] - counts[own]
    return everywhere
