"""Keys and values of earlier tokens in arrays that are made once, and attention that reads them in place.

Shapes: n rows, G heads of keys, C capacity, D head width. The library's growing cache copies all of itself for every
new token, and its attention repeats grouped heads in memory; on long prompts that costs more than the network.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from rewardrate.policies.network import causal, pack, reply_hidden, trunk
from rewardrate.policies.prefix_tree import ATTENTION, MIN_SHARED, PrefixTree


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values [n, G, C, D] of every layer; new tokens are written behind the old ones, views are returned.

    `length` counts tokens held; the caller advances it after each pass. When `column` is set (a tensor of one number)
    it says where the next token goes and `view` how many columns attention reads: nothing then depends on Python
    numbers that change, so a pass can be recorded once and replayed.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers=[])
        self.capacity, self.length = capacity, 0
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.column: Tensor | None = None
        self.view = capacity

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the new tokens of one layer; returns all keys and values that attention may read."""
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        if keys is None or values is None:
            keys = self.keys[layer_idx] = _empty(key_states, self.capacity)
            values = self.values[layer_idx] = _empty(value_states, self.capacity)
        if self.column is not None:
            keys.index_copy_(2, self.column, key_states)
            values.index_copy_(2, self.column, value_states)
            return keys[:, :, : self.view], values[:, :, : self.view]
        end = self.length + key_states.shape[2]
        keys[:, :, self.length : end] = key_states
        values[:, :, self.length : end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def copy_from(self, other: RowCache, rows: Tensor) -> None:
        """Copy `rows` of another cache, into the arrays that exist if there are any."""
        for layer, (keys, values) in enumerate(zip(other.keys, other.values, strict=True)):
            assert keys is not None
            assert values is not None
            for ours, theirs in ((self.keys, keys), (self.values, values)):
                target = ours[layer]
                if target is None:
                    shape = (len(rows), theirs.shape[1], self.capacity, theirs.shape[3])
                    target = ours[layer] = theirs.new_zeros(shape)
                target[:, :, : other.length] = theirs[rows, :, : other.length]
        self.length = other.length

    def keep_rows(self, rows: Tensor) -> None:
        """Drop every row but these."""
        for ours in (self.keys, self.values):
            for layer, array in enumerate(ours):
                if array is not None:
                    smaller = array.new_empty((len(rows), *array.shape[1:]))
                    smaller[:, :, : self.length] = array[rows, :, : self.length]
                    ours[layer] = smaller

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens held."""
        return self.length

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Column of the first new token."""
        return self.length

    def get_mask_sizes(self, query: int | Tensor, layer_idx: int = 0) -> tuple[int, int]:
        """Columns that a mask must cover, and where they start. Older versions of the library pass columns."""
        return self.length + (query if isinstance(query, int) else len(query)), 0

    @property
    def is_sliding(self) -> list[bool]:
        """No layer has a sliding window."""
        return [False] * len(self.keys)

    @property
    def is_compileable(self) -> bool:
        """Masks are made here, not by the library."""
        return False


def _empty(states: Tensor, capacity: int) -> Tensor:
    return states.new_zeros((states.shape[0], states.shape[1], capacity, states.shape[3]))


def grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention of one new token a row without repeating keys: heads that share keys stand as queries of one head.

    query [n, G * k, 1, D] is read as [n, G, k, D]. All of them see the same tokens, so the mask [n, 1, 1, C] holds for
    each. Longer queries, and single ones with other options, use the library's attention; a prefix tree its own.
    """
    tree: PrefixTree | None = options.pop("prefix_tree", None)
    if tree is not None:
        return tree.attend(query, key, value, options.get("scaling")), None
    n, heads, length, width = query.shape
    groups = key.shape[1]
    other = options.get("position_bias") is not None or options.get("softcap") is not None
    if length != 1 or groups == heads or other:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)  # type: ignore[no-any-return]
    together = query.reshape(n, groups, heads // groups, width)
    mask = attention_mask.expand(n, 1, heads // groups, key.shape[2]) if attention_mask is not None else None
    output = torch.nn.functional.scaled_dot_product_attention(
        together, key, value, attn_mask=mask, scale=options.get("scaling")
    )
    return output.reshape(n, 1, heads, value.shape[3]), None


def group_attention(model: Any) -> None:
    """Let a model that uses torch's fused attention decode without repeating keys; training is not affected."""
    if causal(model).config._attn_implementation == "sdpa":
        AttentionInterface.register(ATTENTION, grouped_attention)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        causal(model).set_attn_implementation(ATTENTION)


def shares_prefixes(model: Any) -> bool:
    """Whether rows of a prefix tree get the output that they get alone: tried on a few tokens.

    The model's attention must be torch's fused one over all earlier tokens, and it must pass options on to it.
    """
    if not attends_to_all(causal(model).config):
        return False
    group_attention(model)
    if causal(model).config._attn_implementation != ATTENTION:
        return False
    prefix = [0, 1] * MIN_SHARED
    rows = [[*prefix, 0], [*prefix, 1], [*prefix, 1]], [[1, 0], [0], [1, 1, 0]]
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            apart, shared = (reply_hidden(trunk(model), pack(*rows, device, share)) for share in (False, True))
    except (TypeError, ValueError, IndexError):
        return False
    finally:
        model.train(training)
    return torch.allclose(apart.float(), shared.float(), rtol=1e-3, atol=1e-4)


def attends_to_all(config: Any) -> bool:
    """Whether every layer is plain attention over all earlier tokens: what RowCache can hold."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return getattr(text, "sliding_window", None) is None
