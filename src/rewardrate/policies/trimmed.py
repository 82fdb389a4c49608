"""A pass whose last layer is computed only where its output is asked for.

Of a prompt's tokens the last layer needs keys and values; their queries, their way through the inner network and their
output serve nobody. With six layers and prompts of two thirds that is a tenth of the work.

Shapes: L tokens on one line, A of them asked for, S heads, G heads of keys, D head width, W width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rewardrate.policies.forest import Forest

KINDS = ("llama", "qwen2")


def knows(network: Any) -> bool:
    """Whether the network's layers are put together in the way that is written out here, on a CPU.

    On a GPU attention is one kernel over all tokens, and a layer of many is little.
    """
    return network.config.model_type in KINDS and network.embed_tokens.weight.device.type == "cpu"


def asked_hidden(network: Any, tokens: Tensor, forest: Forest, options: dict[str, Any]) -> Tensor:
    """The network's output for the asked tokens of a forest, tokens [1, L] -> [1, A, W]."""
    hidden = network.embed_tokens(tokens)
    turns = network.rotary_emb(hidden, position_ids=options["position_ids"])
    *early, last = network.layers
    for layer in early:
        hidden = layer(hidden, position_embeddings=turns, **options)
    return network.norm(last_layer(last, hidden, turns, forest))  # type: ignore[no-any-return]


def last_layer(layer: Any, hidden: Tensor, turns: tuple[Tensor, Tensor], forest: Forest) -> Tensor:
    """One layer (attention and inner network, each behind a norm, each added) for the asked tokens, [1, A, W]."""
    asked, attention = forest.asked, layer.self_attn
    known = layer.input_layernorm(hidden)
    key, value = (_heads(part(known), attention.head_dim) for part in (attention.k_proj, attention.v_proj))
    query = _heads(attention.q_proj(known[:, asked]), attention.head_dim)
    query, key = _turned(query, *(turn[:, asked] for turn in turns)), _turned(key, *turns)
    seen = forest.attend_where_asked(query, key, value, attention.scaling)
    hidden = hidden[:, asked] + attention.o_proj(seen.flatten(2))
    return hidden + layer.mlp(layer.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


def _heads(array: Tensor, width: int) -> Tensor:
    """[1, L, heads * D] -> [1, heads, L, D]."""
    return array.view(*array.shape[:-1], -1, width).transpose(1, 2)


def _turned(array: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions: the halves of a head as pairs, turned by the token's angles; [1, heads, L, D]."""
    first, second = array.chunk(2, dim=-1)
    return array * cosine.unsqueeze(1) + torch.cat((-second, first), dim=-1) * sine.unsqueeze(1)
