"""Rows with a common prefix computed once: the tokens of a micro-batch on one line, as segments of a prefix tree.

    [ common prefix of all prompts | rest of prompt 1 | reply | reply | rest of prompt 2 and its only reply | ... ]

A token attends to the segments above its own and to the tokens before it in its own. There is no padding, and the
output for a row is what it would be if the row stood alone.

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

ATTENTION = "rewardrate_grouped"  # our attention's name in the library's registry and in a model's config
BLOCK = 128  # queries per call of attention: smaller computes less that is masked out, and calls more often
MIN_SHARED = 16  # tokens of a common prefix below which sharing costs more than it saves


@dataclass(frozen=True)
class Segment:
    """A run of tokens, and the numbers of the earlier segments above it, from the root down."""

    length: int
    ancestors: tuple[int, ...] = ()


@dataclass(frozen=True)
class PrefixTree:
    """Which of L tokens on one line attend to which."""

    segments: tuple[Segment, ...]
    device: torch.device

    @cached_property
    def lengths(self) -> list[int]:
        """Tokens of each segment."""
        return [segment.length for segment in self.segments]

    @cached_property
    def most_ancestor_tokens(self) -> int:
        """Tokens of the longest line of ancestors."""
        return max(self.ancestor_tokens(segment) for segment in self.segments)

    @cached_property
    def causal_mask(self) -> Tensor:
        """The mask of the longest segment, had it the most ancestors; every other mask is a part of this one."""
        longest = max(self.lengths)
        shape = (longest, self.most_ancestor_tokens + longest)
        return torch.ones(shape, dtype=torch.bool, device=self.device).tril(self.most_ancestor_tokens)

    def ancestor_tokens(self, segment: Segment) -> int:
        """Tokens of a segment's ancestors."""
        return sum(self.lengths[i] for i in segment.ancestors)

    @cached_property
    def varlen_layout(self) -> VarlenLayout:
        """The segments as sequences of different lengths, for a kernel that takes all of them at once."""
        starts = [0, *accumulate(self.lengths)]
        lines = [(*segment.ancestors, i) for i, segment in enumerate(self.segments)]
        key_counts = [sum(self.lengths[j] for j in line) for line in lines]
        columns = [column for line in lines for j in line for column in range(starts[j], starts[j + 1])]
        number = partial(torch.tensor, dtype=torch.int32, device=self.device)
        shared = any(segment.ancestors for segment in self.segments)
        return VarlenLayout(
            key_columns=torch.tensor(columns, device=self.device) if shared else None,
            query_starts=number(starts),
            key_starts=number([0, *accumulate(key_counts)]),
            most_queries=max(self.lengths),
            most_keys=max(key_counts),
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Attention of every segment, query [1, S, L, D], key and value [1, G, L, D] -> [1, L, S, D]."""
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
        if query.is_cuda and kind in (torch.bfloat16, torch.float16) and varlen_works(query.shape[-1]):
            return self._attend_varlen(query.to(kind), key.to(kind), value.to(kind), scale)
        return self._attend_by_segment(query, key, value, scale)

    def _attend_varlen(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        layout = self.varlen_layout
        q, k, v = (array[0].transpose(0, 1) for array in (query, key, value))
        if layout.key_columns is not None:
            # Keys of shared prefixes are copied to each segment below them: memory traffic instead of a mask.
            k, v = (array.index_select(0, layout.key_columns) for array in (k, v))
        return varlen_attention(q, k, v, layout, scale).unsqueeze(0)

    def _attend_by_segment(self, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """One segment after another, BLOCK queries at a time."""
        queries, keys, values = (torch.split(array, self.lengths, dim=2) for array in (query, key, value))
        grouped = key.shape[1] != query.shape[1]
        outputs: list[Tensor] = []
        for i, segment in enumerate(self.segments):
            line, before = (*segment.ancestors, i), self.ancestor_tokens(segment)
            left = self.most_ancestor_tokens - before
            k, v = (torch.cat([part[j] for j in line], dim=2) for part in (keys, values))
            start = 0
            for block in torch.split(queries[i], BLOCK, dim=2):
                # Queries start .. stop see keys up to `end` alone, so those beyond are not computed and then masked.
                stop = start + block.shape[2]
                end = before + stop
                mask = self.causal_mask[start:stop, left : left + end]
                output = scaled_dot_product_attention(
                    block, k[:, :, :end], v[:, :, :end], attn_mask=mask, scale=scale, enable_gqa=grouped
                )
                outputs.append(output.transpose(1, 2))
                start = stop
        return torch.cat(outputs, dim=1)


@dataclass(frozen=True)
class VarlenLayout:
    """Segments as sequences of different lengths: their queries, and the keys of their ancestors and their own."""

    key_columns: Tensor | None
    "Column of each key, [T]; None when the keys are in this order already."
    query_starts: Tensor
    key_starts: Tensor
    "Where each sequence begins among queries and among keys, [segments + 1]."
    most_queries: int
    most_keys: int


def varlen_attention(query: Tensor, key: Tensor, value: Tensor, layout: VarlenLayout, scale: float | None) -> Tensor:
    """Torch's kernel for sequences of different lengths, [L, S, D] and [T, G, D] -> [L, S, D]; causal at the end."""
    from torch.nn.attention.varlen import varlen_attn

    options: dict[str, Any] = {"scale": scale, "window_size": (-1, 0)}
    if "enable_gqa" in inspect.signature(varlen_attn).parameters:
        options["enable_gqa"] = key.shape[1] != query.shape[1]
    else:  # before torch 2.12
        key, value = (array.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for array in (key, value))
    bounds = (layout.query_starts, layout.key_starts, layout.most_queries, layout.most_keys)
    output: Any = varlen_attn(query, key, value, *bounds, **options)
    return output  # type: ignore[no-any-return]


@cache
def varlen_works(width: int) -> bool:
    """Whether that kernel is there and right for heads of this width: tried once, against float32 by segment."""
    tree = PrefixTree((Segment(3), Segment(2, (0,)), Segment(4, (0, 1)), Segment(5, (0,))), torch.device("cuda"))
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = (torch.randn(1, heads, 14, width, generator=generator, device="cuda") for heads in (4, 2, 2))
    try:
        with torch.no_grad(), torch.autocast("cuda", enabled=False):
            ours = tree._attend_varlen(q.bfloat16(), k.bfloat16(), v.bfloat16(), None)
            plain = tree._attend_by_segment(q, k, v, None)
    except (ImportError, RuntimeError, TypeError, ValueError):
        return False
    return bool((ours - plain).norm() < 0.02 * plain.norm())


@dataclass
class TreeBuilder:
    """Tokens, their positions in their rows, and their segments, in the order of the line."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)

    def add(self, tokens: Sequence[int], ancestors: tuple[int, ...] = ()) -> int:
        """Append a segment; returns its number."""
        first = sum(self.segments[i].length for i in ancestors)
        self.tokens += tokens
        self.positions += range(first, first + len(tokens))
        self.segments.append(Segment(len(tokens), ancestors))
        return len(self.segments) - 1


def build_tree(prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]]) -> tuple[TreeBuilder, list[int]]:
    """Rows as a prefix tree, and the column whose output predicts each reply token (row after row): the one before."""
    tree = TreeBuilder()
    rows: dict[tuple[int, ...], list[int]] = {}
    for i, prompt in enumerate(prompts):
        rows.setdefault(tuple(prompt), []).append(i)
    shared = common_prefix(list(rows)) if len(rows) > 1 else 0
    if shared < MIN_SHARED:
        shared = 0
    root = (tree.add(next(iter(rows))[:shared]),) if shared else ()
    columns: list[list[int]] = [[] for _ in prompts]
    for prompt, members in rows.items():
        rest = prompt[shared:]
        if len(members) == 1:
            reply = replies[members[0]]
            tree.add([*rest, *reply], root)
            start = len(tree.tokens) - len(reply)
            columns[members[0]] = list(range(start - 1, len(tree.tokens) - 1))
            continue
        # A prompt keeps its last token for itself (`common_prefix`), so `end` predicts the first token of each reply.
        above = (*root, tree.add(rest, root))
        end = len(tree.tokens) - 1
        for i in members:
            start = len(tree.tokens)
            tree.add(replies[i], above)
            columns[i] = [end, *range(start, len(tree.tokens) - 1)]
    return tree, [column for row in columns for column in row]


def common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; each keeps at least its last token for itself."""
    low, high = min(map(tuple, prompts)), max(map(tuple, prompts))  # these two differ first, if any do
    limit = min(len(prompt) for prompt in prompts) - 1
    return next((i for i in range(limit) if low[i] != high[i]), limit)
