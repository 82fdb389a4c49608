"""Rows that begin alike computed once: the tokens of a micro-batch laid end to end as a forest of segments.

    [ what all prompts begin with | rest of prompt 1 | reply | reply | rest of prompt 2 and its only reply | ... ]

A segment goes on from its ancestors: its tokens see all of theirs and those before them in their own. There is no
padding, and what is computed for a row is what would be computed if it stood alone.

Shapes: L tokens in all, S heads, G heads of keys, D head width.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

ATTENTION = "rewardrate_grouped"  # the attention that knows forests, by the name a model's config has for it
BLOCK = 128  # queries of one call of attention: smaller wastes less on what is hidden, and calls more often
WORTHWHILE = 16  # tokens in common below which sharing them costs more than it saves


@dataclass(frozen=True)
class Segment:
    """A run of tokens, and the numbers of the earlier segments that it goes on from."""

    length: int
    ancestors: tuple[int, ...] = ()
    asked: tuple[int, int] = (0, 0)
    "Its tokens whose output predicts a reply token: from, to (without)."


@dataclass(frozen=True)
class Forest:
    """Who sees whom among L tokens laid end to end."""

    segments: tuple[Segment, ...]
    device: torch.device

    @cached_property
    def lengths(self) -> list[int]:
        """Tokens of each segment."""
        return [segment.length for segment in self.segments]

    @cached_property
    def deepest(self) -> int:
        """Tokens of the longest line of ancestors."""
        return max(self.before(segment) for segment in self.segments)

    @cached_property
    def triangle(self) -> Tensor:
        """Who sees whom in the longest segment, had it the most ancestors; every other mask is a part of this one."""
        longest = max(self.lengths)
        shape = (longest, self.deepest + longest)
        return torch.ones(shape, dtype=torch.bool, device=self.device).tril(self.deepest)

    @cached_property
    def asked(self) -> Tensor:
        """Columns of the tokens whose output predicts a reply token, [N] at most, rising."""
        ends = accumulate(self.lengths)
        firsts = ((end - one.length, one.asked) for end, one in zip(ends, self.segments, strict=True))
        spans = (range(first + start, first + stop) for first, (start, stop) in firsts)
        return torch.tensor([column for span in spans for column in span], device=self.device)

    def before(self, segment: Segment) -> int:
        """Tokens of a segment's ancestors."""
        return sum(self.lengths[i] for i in segment.ancestors)

    @cached_property
    def runs(self) -> Runs:
        """The same for a kernel that takes sequences of unlike length at once."""
        starts = [0, *accumulate(self.lengths)]
        lines = [(*segment.ancestors, i) for i, segment in enumerate(self.segments)]
        seen = [sum(self.lengths[j] for j in line) for line in lines]
        columns = [column for line in lines for j in line for column in range(starts[j], starts[j + 1])]
        number = partial(torch.tensor, dtype=torch.int32, device=self.device)
        shared = any(segment.ancestors for segment in self.segments)
        return Runs(
            torch.tensor(columns, device=self.device) if shared else None,
            number(starts),
            number([0, *accumulate(seen)]),
            max(self.lengths),
            max(seen),
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Attention of every segment, query [1, S, L, D], key and value [1, G, L, D] -> [1, L, S, D]."""
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
        if query.is_cuda and kind in (torch.bfloat16, torch.float16) and kernel_works(query.shape[-1]):
            return self._at_once(query.to(kind), key.to(kind), value.to(kind), scale)
        return self._one_by_one(query, key, value, scale, [(0, length) for length in self.lengths])

    def attend_where_asked(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """The same for queries of the asked tokens alone, [1, S, asked, D] -> [1, asked, S, D]."""
        return self._one_by_one(query, key, value, scale, [segment.asked for segment in self.segments])

    def _at_once(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        runs = self.runs
        q, k, v = (array[0].transpose(0, 1) for array in (query, key, value))
        if runs.columns is not None:
            k, v = (array.index_select(0, runs.columns) for array in (k, v))
        return varlen(q, k, v, runs, scale).unsqueeze(0)

    def _one_by_one(
        self, query: Tensor, key: Tensor, value: Tensor, scale: float | None, spans: Sequence[tuple[int, int]]
    ) -> Tensor:
        """A long segment is taken BLOCK tokens at a time, so that nothing is computed for what they cannot see.

        `spans` says which tokens of each segment have a query, from and to.
        """
        queries = torch.split(query, [last - first for first, last in spans], dim=2)
        keys, values = (torch.split(array, self.lengths, dim=2) for array in (key, value))
        grouped = key.shape[1] != query.shape[1]
        seen: list[Tensor] = []
        for i, (segment, (start, last)) in enumerate(zip(self.segments, spans, strict=True)):
            if start == last:
                continue
            line, before = (*segment.ancestors, i), self.before(segment)
            left = self.deepest - before
            k, v = (torch.cat([part[j] for j in line], dim=2) for part in (keys, values))
            for block in torch.split(queries[i], BLOCK, dim=2):
                stop = start + block.shape[2]
                end = before + stop
                mask = self.triangle[start:stop, left : left + end]
                output = scaled_dot_product_attention(
                    block, k[:, :, :end], v[:, :, :end], attn_mask=mask, scale=scale, enable_gqa=grouped
                )
                seen.append(output.transpose(1, 2))
                start = stop  # noqa: PLW2901
        return torch.cat(seen, dim=1)


@dataclass(frozen=True)
class Runs:
    """Segments as sequences of unlike length: their queries, and the keys of their ancestors and their own."""

    columns: Tensor | None
    "Where each key stands, [T]; None when they stand in this order already."
    query_starts: Tensor
    key_starts: Tensor
    "Where each sequence begins among queries and among keys, [segments + 1]."
    most_queries: int
    most_keys: int


def varlen(query: Tensor, key: Tensor, value: Tensor, runs: Runs, scale: float | None) -> Tensor:
    """Torch's kernel for sequences of unlike length, [L, S, D] and [T, G, D] -> [L, S, D]; each sees up to its end."""
    from torch.nn.attention.varlen import varlen_attn

    options: dict[str, Any] = {"scale": scale, "window_size": (-1, 0)}
    if "enable_gqa" in inspect.signature(varlen_attn).parameters:
        options["enable_gqa"] = key.shape[1] != query.shape[1]
    else:  # before torch 2.12
        key, value = (array.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for array in (key, value))
    bounds = (runs.query_starts, runs.key_starts, runs.most_queries, runs.most_keys)
    output: Any = varlen_attn(query, key, value, *bounds, **options)
    return output  # type: ignore[no-any-return]


@cache
def kernel_works(width: int) -> bool:
    """Whether that kernel is there and right for heads of this width: tried once, against the plain way in float32."""
    wood = Forest((Segment(3), Segment(2, (0,)), Segment(4, (0, 1)), Segment(5, (0,))), torch.device("cuda"))
    dice = torch.Generator("cuda").manual_seed(0)
    q, k, v = (torch.randn(1, heads, 14, width, generator=dice, device="cuda") for heads in (4, 2, 2))
    try:
        with torch.no_grad(), torch.autocast("cuda", enabled=False):
            ours = wood._at_once(q.bfloat16(), k.bfloat16(), v.bfloat16(), None)
            plain = wood._one_by_one(q, k, v, None, [(0, length) for length in wood.lengths])
    except (ImportError, RuntimeError, TypeError, ValueError):
        return False
    return bool((ours - plain).norm() < 0.02 * plain.norm())


@dataclass
class Planting:
    """Tokens, their positions in their rows, and their segments, as they are laid down."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    def add(self, tokens: Sequence[int], ancestors: tuple[int, ...] = (), asked: tuple[int, int] = (0, 0)) -> int:
        """Lay down a segment; returns its number."""
        first = sum(self.segments[i].length for i in ancestors)
        self.tokens += tokens
        self.positions += range(first, first + len(tokens))
        self.segments.append(Segment(len(tokens), ancestors, asked))
        return len(self.segments) - 1


def plant(prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]]) -> tuple[Planting, list[int]]:
    """Rows as a forest, and the column whose output predicts each reply token (row after row): the one before it."""
    planted = Planting()
    rows: dict[tuple[int, ...], list[int]] = {}
    for i, prompt in enumerate(prompts):
        rows.setdefault(tuple(prompt), []).append(i)
    shared = common_prefix(list(rows)) if len(rows) > 1 else 0
    if shared < WORTHWHILE:
        shared = 0
    stem = (planted.add(next(iter(rows))[:shared]),) if shared else ()
    columns: list[list[int]] = [[] for _ in prompts]
    for prompt, members in rows.items():
        rest = prompt[shared:]
        if len(members) == 1:
            reply = replies[members[0]]
            planted.add([*rest, *reply], stem, (len(rest) - 1, len(rest) + len(reply) - 1))
            start = len(planted.tokens) - len(replies[members[0]])
            columns[members[0]] = list(range(start - 1, len(planted.tokens) - 1))
            continue
        above = (*stem, planted.add(rest, stem, (len(rest) - 1, len(rest))))
        end = len(planted.tokens) - 1
        for i in members:
            start = len(planted.tokens)
            planted.add(replies[i], above, (0, len(replies[i]) - 1))
            columns[i] = [end, *range(start, len(planted.tokens) - 1)]
    return planted, [column for row in columns for column in row]


def common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; each keeps at least its last token for itself."""
    low, high = min(map(tuple, prompts)), max(map(tuple, prompts))
    limit = min(len(prompt) for prompt in prompts) - 1
    return next((i for i in range(limit) if low[i] != high[i]), limit)
