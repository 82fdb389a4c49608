"""One decoding step of a Llama-like network in few kernels: matrix products joined, one kernel between them.

A recorded step of a small network is limited by the number of kernels, not by arithmetic. Per layer: norm, one product
for queries, keys and values, rotation, attention that reads only the columns in use, product, norm, one product for
gate and up projection, gate, product.

Shapes: n rows, H heads, G heads of keys, D head width, C capacity of the cache, W width, I inner width.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from rewardrate.policies.cache import RowCache

KINDS = ("llama", "qwen2")
COLUMNS = 64  # of the cache in one iteration of the attention kernel
PROGRAMS = 264  # of attention that should at least run at once: two for each multiprocessor of a large GPU


def fusible(model: Any) -> bool:
    """Whether the model's step is implemented here, for its device and its (unwrapped) weights."""
    device = next(model.parameters()).device.type
    if device != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    if importlib.util.find_spec("triton") is None:
        return False
    config = model.config
    if config.model_type not in KINDS or getattr(config, "hidden_act", "") != "silu":
        return False
    width = _head_width(config)
    if width & (width - 1) or not 16 <= width <= 256:
        return False
    layer = model.model.layers[0]
    parts = [layer.self_attn.q_proj, layer.self_attn.o_proj, layer.mlp.gate_proj, layer.mlp.down_proj, model.lm_head]
    return all(type(part) is nn.Linear for part in parts)


class FusedStep:
    """The step of one network; call `refresh` when its weights have changed."""

    def __init__(self, model: Any, rows: int, capacity: int) -> None:
        config = model.config
        self.model = model
        self.heads = int(config.num_attention_heads)
        self.groups = int(config.num_key_value_heads)
        self.width, self.inner, self.size = _head_width(config), int(config.intermediate_size), int(config.hidden_size)
        self.eps = float(config.rms_norm_eps)
        self.scale = float(model.model.layers[0].self_attn.scaling)
        self.parts = _parts(rows * self.groups, capacity)
        weight = model.lm_head.weight
        positions = torch.arange(capacity, device=weight.device).unsqueeze(0)
        rotations = model.model.rotary_emb(weight.new_zeros(1, dtype=torch.float32), positions)
        self.cosines, self.sines = (part[0].float().contiguous() for part in rotations)
        self.joined: list[tuple[Tensor, Tensor | None, Tensor]] = []
        self.norm, self.query = (weight.new_empty(rows, w) for w in (self.size, self.heads * self.width))
        self.context, self.gated = weight.new_empty(rows, self.heads * self.width), weight.new_empty(rows, self.inner)
        shape = (rows, self.heads, self.parts)
        self.sums = torch.empty(*shape, self.width, dtype=torch.float32, device=weight.device)
        self.maxima, self.weights = (torch.empty(shape, dtype=torch.float32, device=weight.device) for _ in range(2))
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Join the weights of products with the same input, in place: recorded graphs read these arrays."""
        for place, layer in enumerate(self.model.model.layers):
            attention, mlp = layer.self_attn, layer.mlp
            first = [attention.q_proj, attention.k_proj, attention.v_proj]
            weights = torch.cat([part.weight for part in first])
            bias = torch.cat([part.bias for part in first]) if first[0].bias is not None else None
            gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
            if place == len(self.joined):
                self.joined.append((weights, bias, gate_up))
                continue
            for ours, new in zip(self.joined[place], (weights, bias, gate_up), strict=True):
                if ours is not None and new is not None:
                    ours.copy_(new)

    def __call__(self, tokens: Tensor, positions: Tensor, mask: Tensor, cache: RowCache) -> Tensor:
        """Logits behind `tokens` [n, 1], which goes to the cache's column; mask [n, 1, 1, C]: 0, or -inf."""
        network = self.model.model
        x = embedding(tokens.squeeze(1), network.embed_tokens.weight)
        change: Tensor | None = None
        for place, layer in enumerate(network.layers):
            weights, bias, gate_up = self.joined[place]
            self._normed(x, change, layer.input_layernorm.weight)
            self._attend(linear(self.norm, weights, bias), positions, mask, cache, place)
            change = linear(self.context, layer.self_attn.o_proj.weight, layer.self_attn.o_proj.bias)
            self._normed(x, change, layer.post_attention_layernorm.weight)
            self._gate(linear(self.norm, gate_up))
            change = linear(self.gated, layer.mlp.down_proj.weight)
        self._normed(x, change, network.norm.weight)
        return linear(self.norm, self.model.lm_head.weight)

    def _normed(self, x: Tensor, change: Tensor | None, weight: Tensor) -> None:
        from rewardrate.policies import kernels

        add = change is not None
        kernels.add_norm[(len(x),)](
            x, change if add else x, weight, out=self.norm, width=self.size, eps=self.eps, add=add,
            block=_power(self.size),
        )  # fmt: skip

    def _attend(self, qkv: Tensor, positions: Tensor, mask: Tensor, cache: RowCache, place: int) -> None:
        from rewardrate.policies import kernels

        keys, values, column = cache.keys[place], cache.values[place], cache.column
        rows, each = len(qkv), self.heads // self.groups
        kernels.rotate_store[(rows, self.heads + 2 * self.groups)](
            qkv, cosines=self.cosines, sines=self.sines, position=positions, column=column,
            query=self.query, keys=keys, values=values,
            heads=self.heads, groups=self.groups, capacity=cache.capacity, width=self.width,
        )  # fmt: skip
        kernels.attend[(rows, self.groups, self.parts)](
            self.query, keys, values, bias=mask, column=column,
            sums=self.sums, maxima=self.maxima, weights=self.weights, scale=self.scale, capacity=cache.capacity,
            heads_per_group=each, padded=max(16, _power(each)), width=self.width, block=COLUMNS, parts=self.parts,
        )  # fmt: skip
        kernels.combine[(rows * self.heads,)](
            self.sums, self.maxima, self.weights, self.context, width=self.width, parts=self.parts
        )

    def _gate(self, both: Tensor) -> None:
        from rewardrate.policies import kernels

        block = min(1024, _power(self.inner))
        kernels.gate[(len(both), -(-self.inner // block))](both, self.gated, self.inner, block=block)


def _parts(programs: int, capacity: int) -> int:
    """Parts of the cache that are read in parallel: enough to fill a large GPU, each of a minimum of columns."""
    parts = 1
    while programs * parts < PROGRAMS and capacity // (2 * parts) >= 2 * COLUMNS and parts < 16:
        parts *= 2
    return parts


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _head_width(config: Any) -> int:
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
