"""What the learner asks of a causal language model: scores of reply tokens, and values, in little memory.

Shapes: b rows of a micro-batch, T its longest prompt + reply, H hidden size, N its reply tokens, V vocabulary.
Rows are padded on the right, or stand on one line as a prefix tree. Attention is causal, so padding behind a row
cannot reach it: no attention mask is needed and the fast causal kernels apply.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rewardrate.errors import InputError
from rewardrate.policies import policy_gradient as pg
from rewardrate.policies.prefix_tree import ATTENTION, PrefixTree, build_tree

HEAD_ELEMENTS = 1 << 26  # logits held at once: 256 MB in float32


@dataclass(frozen=True)
class Pack:
    """Rows of a micro-batch as tensors, and where their reply tokens stand."""

    tokens: Tensor
    "[b, T] prompt, reply, padding."
    rows: Tensor
    columns: Tensor
    "[N] row and column whose output predicts each reply token (the column before it)."
    replies: Tensor
    "[N] the reply tokens themselves, row after row."
    positions: Tensor | None = None
    tree: PrefixTree | None = None
    "[1, T] and the prefix tree, where rows share their common prefixes (then b is 1)."


def pack(
    prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], device: torch.device, share: bool = False
) -> Pack:
    """Prompts and replies side by side, right-padded with token 0; with `share`, as a prefix tree on one line."""
    flat = torch.tensor([token for reply in replies for token in reply], dtype=torch.long).to(device)
    if share:
        built, predicting = build_tree(prompts, replies)
        columns = torch.tensor(predicting, device=device)
        tokens, positions = (torch.tensor([part], device=device) for part in (built.tokens, built.positions))
        tree = PrefixTree(tuple(built.segments), device)
        return Pack(
            tokens, rows=torch.zeros_like(columns), columns=columns, replies=flat, positions=positions, tree=tree
        )
    lines = [[*prompt, *reply] for prompt, reply in zip(prompts, replies, strict=True)]
    width = max(len(line) for line in lines)
    tokens = torch.tensor([line + [0] * (width - len(line)) for line in lines], device=device)
    spans = [(len(prompt) - 1, len(line) - 1) for prompt, line in zip(prompts, lines, strict=True)]
    rows = torch.tensor([i for i, (start, end) in enumerate(spans) for _ in range(start, end)], device=device)
    columns = torch.tensor([at for span in spans for at in range(*span)], device=device)
    return Pack(tokens, rows, columns, flat)


def causal(model: Any) -> Any:
    """The Hugging Face causal model itself, without the LoRA wrapper it may stand in."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def trunk(model: Any) -> Any:
    """The network below the output layer."""
    return causal(model).base_model


def hidden_size(model: Any) -> int:
    """H, the width of the trunk's output."""
    return int(causal(model).config.get_text_config().hidden_size)


def half_copy(model: Any) -> Any:
    """A frozen bf16 copy of the weights. Only of the weights: the frequencies of positions keep their precision."""
    small = copy.deepcopy(model).requires_grad_(False)
    for parameter in small.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return small


def recompute_layers(model: Any) -> None:
    """Keep no activations of a layer: compute them again in the backward pass."""
    plain = {"use_reentrant": False, "preserve_rng_state": False}  # there is no dropout to repeat
    new = getattr(model, "activation_checkpointing_enable", None)  # its name from transformers 5.23 on
    (new or model.gradient_checkpointing_enable)(plain)


def silence_dropout(model: nn.Module) -> None:
    """Set every dropout to zero: with noise in the network the first ratio of PPO would not be one."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "activation_dropout", "layerdrop"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def reply_hidden(network: Any, pack: Pack) -> Tensor:
    """The trunk's output wherever a reply token is predicted, [N, H]."""
    if pack.tree is None:
        output = network(input_ids=pack.tokens, use_cache=False).last_hidden_state
        return output[pack.rows, pack.columns]  # type: ignore[no-any-return]
    if network.config._attn_implementation != ATTENTION:
        raise ValueError("rows share tokens, but the model's attention was changed to one that would mix them")
    nothing = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=pack.tokens.device)  # keeps the library from a mask
    options = {"attention_mask": nothing, "position_ids": pack.positions, "prefix_tree": pack.tree, "use_cache": False}
    return network(input_ids=pack.tokens, **options).last_hidden_state[0, pack.columns]  # type: ignore[no-any-return]


class Head:
    """The output layer of a causal model as a function [n, H] -> [n, V], with the model's own cap or scale of logits.

    Lets logits exist for reply tokens alone and a chunk at a time. The constructor compares it with the model on two
    tokens and refuses a model that does something else to its logits.
    """

    def __init__(self, model: Any) -> None:
        self.layer: Any = causal(model).get_output_embeddings()
        config = causal(model).config.get_text_config()
        self.cap: float | None = getattr(config, "final_logit_softcapping", None)
        self.scale = float(getattr(config, "logit_scale", None) or 1.0) / float(
            getattr(config, "logits_scaling", None) or 1.0
        )
        self.check(model)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Logits, [n, H] -> [n, V]."""
        logits = self.layer(hidden) * self.scale if self.scale != 1.0 else self.layer(hidden)
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits

    def check(self, model: Any) -> None:
        """Raise InputError unless this is the model's own way from hidden states to logits."""
        tokens = torch.tensor([[0, 1]], device=next(model.parameters()).device)
        with torch.no_grad():
            theirs = causal(model)(input_ids=tokens, use_cache=False).logits
            ours = self(trunk(model)(input_ids=tokens, use_cache=False).last_hidden_state)
        if not torch.allclose(theirs.float(), ours.float(), rtol=1e-2, atol=1e-3):
            name = type(causal(model)).__name__
            raise InputError(
                "model", name, "it changes its logits in a way that is not known here", "use another architecture"
            )


def reply_scores(hidden: Tensor, head: Head, replies: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each reply token and entropy of its distribution; hidden [N, H], replies [N] -> [N], [N].

    Logits are made a chunk at a time; when more than one chunk is needed they are made again in the backward pass
    instead of being kept, so memory holds one chunk of them however long the replies are.
    """

    def score(part: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return pg.scores(head(part), tokens, temperature)

    chunks = _chunks(hidden, head, replies)
    if len(chunks) == 1:
        return score(*chunks[0])
    parts = [checkpoint(score, part, tokens, use_reentrant=False) for part, tokens in chunks]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


@torch.no_grad()
def reply_logprobs(hidden: Tensor, head: Head, replies: Tensor, temperature: float) -> Tensor:
    """The log-probabilities of `reply_scores` alone, bit for bit, without a gradient."""
    chunks = _chunks(hidden, head, replies)
    return torch.cat([pg.token_logprobs(head(part), tokens, temperature, len(tokens)) for part, tokens in chunks])


def _chunks(hidden: Tensor, head: Head, replies: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Hidden states and reply tokens, as many at a time as HEAD_ELEMENTS allows."""
    size = max(1, HEAD_ELEMENTS // int(head.layer.weight.shape[0]))
    return list(zip(torch.split(hidden, size), torch.split(replies, size), strict=True))


class Critic(nn.Module):
    """V(s_t): a trunk of its own, started from the policy's weights, and one number a token on top.

    The head starts at zero, so the first values are zero and the first advantages are the returns.
    """

    def __init__(self, network: Any, width: int) -> None:
        super().__init__()
        self.network = network
        self.head = value_head(network, width)

    def forward(self, pack: Pack) -> Tensor:
        """Values of the states in which the reply tokens were chosen, [N]."""
        return values(self.head, reply_hidden(self.network, pack))


def value_head(network: Any, width: int) -> nn.Linear:
    """A linear layer to one number, zero at the start, where `network` lives; float32 at least."""
    head = nn.Linear(width, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    weight = next(network.parameters())
    return head.to(weight.device, torch.float64 if weight.dtype == torch.float64 else torch.float32)


def values(head: nn.Linear, hidden: Tensor) -> Tensor:
    """The value head's numbers, [N, H] -> [N], in float32 also where the arithmetic is bf16 (float64 stays)."""
    with torch.autocast(hidden.device.type, enabled=False):
        return head(hidden.to(head.weight.dtype)).squeeze(-1)  # type: ignore[no-any-return]


def own_critic(model: Any) -> Critic:
    """A critic with a copy of the policy's trunk; under LoRA the copy has adapters of its own."""
    return Critic(copy.deepcopy(trunk(model)), hidden_size(model))


class ReferencePolicy:
    """The frozen policy that the KL term holds on to: a copy, or under LoRA the same network without its adapters."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.adapters = hasattr(model, "disable_adapter")
        if not self.adapters:
            self.model = copy.deepcopy(model).requires_grad_(False)
            self.model.eval()
        self.head = Head(self.model)

    @contextmanager
    def __call__(self) -> Iterator[tuple[Any, Head]]:
        """The trunk and head to score with; adapters are off inside the `with`."""
        if not self.adapters:
            yield trunk(self.model), self.head
            return
        with self.model.disable_adapter():
            yield trunk(self.model), self.head
