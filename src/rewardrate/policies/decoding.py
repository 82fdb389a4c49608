"""From prompts to the logits of the next token, one token at a time, for rows of different lengths.

Layout of a cache, the same columns for all n rows:

    [ prefix that all prompts share | padding, rest of the prompt | reply ... ]
       computed once                  padding on its left            column `end` + t

Equal prompts are computed once and copied. Positions count real tokens only, and no row attends to its padding.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from rewardrate.policies.cache import RowCache
from rewardrate.policies.network import causal
from rewardrate.policies.prefix_tree import MIN_SHARED, common_prefix

PREFILL_TOKENS = 1 << 14  # prompt tokens in one pass: bounds the memory of long prompts


class Prompts:
    """Prompts as tensors: distinct ones only, a shared prefix apart, the rest padded on the left."""

    def __init__(self, prompts: Sequence[Sequence[int]], device: torch.device) -> None:
        distinct = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
        place = {prompt: i for i, prompt in enumerate(distinct)}
        self.row = torch.tensor([place[tuple(prompt)] for prompt in prompts], device=device)
        self.shared = common_prefix(distinct) if len(distinct) > 1 else 0
        if self.shared < MIN_SHARED:
            self.shared = 0
        rests = [prompt[self.shared :] for prompt in distinct]
        width = max(len(rest) for rest in rests)
        self.end = self.shared + width
        self.prefix = torch.tensor([distinct[0][: self.shared]], dtype=torch.long, device=device)
        self.rest = torch.tensor([[0] * (width - len(rest)) + list(rest) for rest in rests], device=device)
        self.padding = torch.tensor([width - len(rest) for rest in rests], device=device)
        self.padded = any(len(rest) < width for rest in rests)

    def lengths(self) -> Tensor:
        """Tokens of each row's prompt, [n]."""
        return (self.end - self.padding)[self.row]

    def visible(self) -> Tensor:
        """Which columns of its prompt a row attends to, [n, end]."""
        column = torch.arange(self.end, device=self.rest.device)
        real = (column < self.shared) | (column >= self.shared + self.padding.unsqueeze(1))
        return real[self.row]

    def mask(self, rows: slice) -> Tensor | None:
        """The attention mask of the rests, [b, 1, width, end]; None where plain causal attention will do."""
        # Padding attends to itself: a softmax over nothing would be NaN and spread to other rows.
        if not self.padded and not self.shared:
            return None
        width = self.end - self.shared
        query = torch.arange(width, device=self.rest.device).unsqueeze(1)
        column = torch.arange(width, device=self.rest.device)
        real = column >= self.padding[rows].view(-1, 1, 1)
        among = (column <= query) & (real | (column == query))
        before = torch.ones(among.shape[0], width, self.shared, dtype=torch.bool, device=among.device)
        return torch.cat([before, among], dim=2).unsqueeze(1)


class RowDecoder:
    """Decodes with a RowCache; rows that have ended can be dropped, so that short replies are cheap."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], new_tokens: int) -> None:
        self.model = causal(model)
        device = next(model.parameters()).device
        self.prompts = Prompts(prompts, device)
        self.positions = self.prompts.lengths()
        self.visible: Tensor | None = self.prompts.visible() if self.prompts.padded else None
        self.cache = RowCache(layer_count(self.model), self.prompts.end + new_tokens)

    def start(self) -> Tensor:
        """Process the prompts; logits of every row's first reply token, [n, V]."""
        computed, logits = read_prompts(self.model, self.prompts)
        self.cache.copy_from(computed, self.prompts.row)
        return logits[self.prompts.row]

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to every row [n]; logits of the next, [n, V]."""
        if self.visible is not None:
            self.visible = torch.nn.functional.pad(self.visible, (0, 1), value=True)
        mask = self.visible[:, None, None] if self.visible is not None else None
        logits = forward(self.model, tokens.unsqueeze(1), self.positions.unsqueeze(1), mask, self.cache)
        self.cache.length += 1
        self.positions = self.positions + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Drop every row but these."""
        self.cache.keep_rows(rows)
        self.positions = self.positions[rows]
        self.visible = self.visible[rows] if self.visible is not None else None


def forward(model: Any, tokens: Tensor, positions: Tensor, mask: Tensor | None, cache: Any) -> Tensor:
    """Logits behind the last of `tokens`, [n, q] -> [n, V]."""
    output = model(
        input_ids=tokens,
        position_ids=positions,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1]  # type: ignore[no-any-return]


def read_prompts(model: Any, prompts: Prompts) -> tuple[RowCache, Tensor]:
    """A cache that holds the distinct prompts, and the logits behind each: prefix once, the rests some at a time."""
    device, shared, width = prompts.rest.device, prompts.shared, prompts.end - prompts.shared
    count = len(prompts.rest)
    whole = RowCache(layer_count(model), prompts.end)
    prefix = RowCache(layer_count(model), max(shared, 1))
    if shared:
        forward(model, prompts.prefix, torch.arange(shared, device=device).unsqueeze(0), None, prefix)
        prefix.length = shared
        whole.copy_from(prefix, torch.zeros(count, dtype=torch.long, device=device))
    logits, parts = [], []
    size = max(1, PREFILL_TOKENS // width)
    for rows in (slice(at, min(at + size, count)) for at in range(0, count, size)):
        part = RowCache(layer_count(model), prompts.end)
        if shared:
            part.copy_from(prefix, torch.zeros(rows.stop - rows.start, dtype=torch.long, device=device))
        positions = torch.arange(width, device=device) - prompts.padding[rows].unsqueeze(1)
        logits.append(forward(model, prompts.rest[rows], shared + positions.clamp(min=0), prompts.mask(rows), part))
        part.length = prompts.end
        parts.append(part)
    if len(parts) == 1:
        return parts[0], logits[0]
    for layer in range(len(whole.keys)):
        whole.keys[layer] = torch.cat([part.keys[layer] for part in parts])  # type: ignore[misc]
        whole.values[layer] = torch.cat([part.values[layer] for part in parts])  # type: ignore[misc]
    whole.length = prompts.end
    return whole, torch.cat(logits)


class HubDecoder:
    """Decodes with the library's own cache: for models with sliding windows or recurrent layers. Nothing is shared."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], new_tokens: int) -> None:
        self.model = causal(model)
        device = next(model.parameters()).device
        width = max(len(prompt) for prompt in prompts)
        self.tokens = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=device)
        self.visible = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
        self.cache: Any = DynamicCache(config=self.model.config)
        self.takes_positions = "position_ids" in inspect.signature(self.model.forward).parameters

    def start(self) -> Tensor:
        """Process the prompts; logits of every row's first reply token, [n, V]."""
        return self._pass(self.tokens)

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to every row [n]; logits of the next, [n, V]."""
        self.visible = torch.nn.functional.pad(self.visible, (0, 1), value=1)
        return self._pass(tokens.unsqueeze(1))

    def _pass(self, tokens: Tensor) -> Tensor:
        options: dict[str, Any] = {"attention_mask": self.visible, "past_key_values": self.cache, "use_cache": True}
        if self.takes_positions:
            options["position_ids"] = (self.visible.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        return self.model(input_ids=tokens, **options).logits[:, -1]  # type: ignore[no-any-return]


def layer_count(model: Any) -> int:
    """Layers that keep keys and values."""
    return int(model.config.get_text_config().num_hidden_layers)
