"""Batched sampling from any Hugging Face causal language model.

Shapes: n rows that have not ended, V vocabulary, M most new tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from rewardrate.config import AtLeast, Between, build
from rewardrate.errors import InputError
from rewardrate.policies.cache import attends_to_all, group_attention
from rewardrate.policies.decoding import HubDecoder, Prompts, RowDecoder
from rewardrate.policies.fused import fusible
from rewardrate.policies.network import causal
from rewardrate.policies.static import VIEW, StaticLoop


@dataclass(frozen=True)
class SamplingSettings:
    """How replies are drawn. Defaults: the paper's table."""

    temperature: Annotated[float, AtLeast(1e-3)] = 0.7
    "Logits are divided by it. For the likeliest token always, set top_k = 1."
    top_p: Annotated[float, Between(1e-3, 1)] = 0.8
    "Only the likeliest tokens that together reach this share can be drawn. 1: all."
    top_k: Annotated[int, AtLeast(0)] = 20
    "Only this many likeliest tokens can be drawn. 0: all."
    presence_penalty: float = 1.5
    "Subtracted from the logit of every token that the reply already has."
    new_tokens: Annotated[int, AtLeast(1)] = 2500
    "The longest reply."
    rows_at_once: Annotated[int, AtLeast(1)] | None = None
    "Rows per batch; nothing: all. Changes time and memory, not the replies."
    engine: Literal["auto", "eager", "graph", "fused", "vllm"] = "auto"
    """eager: step by step. graph: a step is recorded as a CUDA graph and replayed. fused: the same with kernels of our
    own, for Llama and Qwen2. auto: eager on a CPU; on a GPU fused where it can be used, else graph. vllm: the library
    of that name (docs/vllm.md)."""
    memory_share: Annotated[float, Between(0.05, 0.95)] = 0.4
    "Share of the GPU's memory that vLLM may fill while it samples; the learner needs the rest."

    @property
    def whole(self) -> bool:
        """Whether the distribution is drawn from as it is: nothing cut, nothing penalised."""
        return self.top_p == 1 and self.top_k == 0 and self.presence_penalty == 0


@dataclass(frozen=True)
class Sample:
    """One drawn reply."""

    tokens: tuple[int, ...]
    "With the end token if it was drawn."
    logprobs: tuple[float, ...]
    "Under softmax(logits / temperature): what PPO uses."
    drawn_logprobs: tuple[float, ...]
    "Under the distribution after presence penalty, top-k and top-p, from which the token was drawn."
    finished: bool


def draw(
    logits: Tensor, uniform: Tensor, seen: Tensor | None, settings: SamplingSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """One token a row by inverse transform: token, its log-probability, its log-probability when drawn; each [n].

        z = logits / temperature
        p = softmax of z less the presence penalty, cut to the top-k, then to the top-p
        token = first whose cumulative p exceeds uniform * sum(p)

    logits [n, V], uniform [n] in [0, 1), seen [n, V] true where the reply has the token.
    """
    assert logits.shape[:1] == uniform.shape
    assert seen is None or seen.shape == logits.shape
    scaled = logits.float() / settings.temperature
    kept, order = scaled, None
    if seen is not None:
        kept = scaled - (settings.presence_penalty / settings.temperature) * seen
    if 0 < settings.top_k < logits.shape[-1]:
        kept, order = kept.topk(settings.top_k, dim=-1)
    elif settings.top_p < 1:
        kept, order = kept.sort(dim=-1, descending=True)
    share = kept.softmax(-1)
    if settings.top_p < 1:
        share = share * (
            share.cumsum(-1) - share < settings.top_p
        )  # keep a token if those before it have less than top_p
    cumulative = share.double().cumsum(-1)
    pick = torch.searchsorted(cumulative, uniform.double().unsqueeze(1) * cumulative[:, -1:], right=True)
    pick = pick.clamp(max=share.shape[1] - 1)
    token = pick if order is None else order.gather(1, pick)
    logprob = scaled.gather(1, token).squeeze(1) - scaled.logsumexp(-1)
    drawn = (share.gather(1, pick).double() / cumulative[:, -1:]).log().squeeze(1)
    return token.squeeze(1), logprob, drawn.float()


class Sampler:
    """Draws replies with a model. A reply depends on weights, prompt, seed and the row's number, not on other rows.

    (Up to rounding: another batch shape may change the last bit of a logit, which matters only if a draw falls on it.)
    Temperature and truncation are applied here, never the model's own defaults.
    """

    def __init__(self, model: Any, settings: SamplingSettings, stops: Sequence[int]) -> None:
        self.model = model
        self.settings = build(SamplingSettings, asdict(settings), "sampling.")
        self.device = next(model.parameters()).device
        self.stops = torch.tensor(sorted(set(stops)), dtype=torch.long, device=self.device)
        self.plain = attends_to_all(causal(model).config)
        if self.plain:
            group_attention(model)
        self.engine, self.why = self._engine()
        self._loop: StaticLoop | None = None

    @torch.no_grad()
    def sample(self, prompts: Sequence[Sequence[int]], seed: int, first: int = 0) -> list[Sample]:
        """One reply to each prompt (token ids), whose rows count from `first`.

        Raises InputError for an empty prompt or when logits are not finite.
        """
        for i, prompt in enumerate(prompts):
            if not prompt:
                raise InputError(f"prompts[{i}]", prompt, "it must have at least one token")
        size = self.settings.rows_at_once or max(1, len(prompts))
        limits = [reply_limit(self.model, len(prompt), self.settings.new_tokens) for prompt in prompts]
        samples: list[Sample] = []
        training = self.model.training
        self.model.eval()  # a model that recomputes its layers keeps no cache while it trains
        try:
            for at in range(0, len(prompts), size):
                rows = range(at, min(at + size, len(prompts)))
                limit = torch.tensor(limits[at : rows.stop], device=self.device)
                uniforms = torch.from_numpy(
                    uniform_rows(seed, [first + row for row in rows], max(limits[at : rows.stop]))
                )
                samples += self._generate(prompts[at : rows.stop], uniforms.to(self.device), limit)
        finally:
            self.model.train(training)
        if any(math.isnan(logprob) for sample in samples for logprob in sample.logprobs):
            self._loop = None  # its cache holds NaN
            raise InputError("model", self.settings, "its logits are not finite", "go back to an earlier checkpoint")
        return samples

    def _engine(self) -> tuple[str, str]:
        """The engine that `auto` selects, and why; models that need the library's own cache decode eagerly."""
        asked = self.settings.engine
        if asked == "vllm":
            raise InputError("sampling.engine", asked, "this is the built-in sampler", "make a VllmSampler")
        can_fuse = asked in ("auto", "fused") and self.plain and fusible(causal(self.model))
        if asked == "fused" and not can_fuse:
            rule = "it needs a plain Llama or Qwen2 model, a GPU and triton"
            raise InputError("sampling.engine", asked, rule, 'set it to "auto"')
        if not self.plain:
            return "eager", "this kind of model needs the cache of its own library"
        if asked != "auto":
            return asked, "the recipe asks for it"
        if self.device.type != "cuda":
            return "eager", "there is no GPU"
        if can_fuse:
            return "fused", "a Llama or Qwen2 model on a GPU: the fastest of ours"
        return "graph", "kernels of ours are for Llama and Qwen2 models without LoRA; vllm was not compared for others"

    def _generate(self, prompts: Sequence[Sequence[int]], uniforms: Tensor, limits: Tensor) -> list[Sample]:
        if self.engine != "eager":
            return self._generate_static(prompts, uniforms, limits)
        return self._generate_eager(prompts, uniforms, limits)

    def _generate_eager(self, prompts: Sequence[Sequence[int]], uniforms: Tensor, limits: Tensor) -> list[Sample]:
        """Token by token; rows that have ended leave the batch."""
        rows, most = uniforms.shape
        decoder = (RowDecoder if self.plain else HubDecoder)(self.model, prompts, new_tokens=most)
        tokens = torch.zeros(rows, most, dtype=torch.long, device=self.device)
        logprobs, drawn = (torch.zeros(rows, most, device=self.device) for _ in range(2))
        lengths = limits.clone()
        active = torch.arange(rows, device=self.device)
        logits = decoder.start()
        seen = torch.zeros(logits.shape, dtype=torch.bool, device=self.device) if self._penalises else None
        for t in range(most):
            token, logprob, drawn_logprob = draw(logits, uniforms[active, t], seen, self.settings)
            tokens[active, t], logprobs[active, t], drawn[active, t] = token, logprob, drawn_logprob
            if seen is not None:
                seen.scatter_(1, token.unsqueeze(1), True)
            ended = (token.unsqueeze(1) == self.stops).any(1)
            lengths[active[ended]] = lengths[active[ended]].clamp(max=t + 1)
            unfinished = (lengths[active] > t + 1).nonzero().squeeze(1)
            if not len(unfinished):
                break
            if len(unfinished) < len(active) and isinstance(decoder, RowDecoder):
                decoder.keep(unfinished)
                active, token = active[unfinished], token[unfinished]
                seen = seen[unfinished] if seen is not None else None
            logits = decoder.step(token)
        return self._samples(tokens, logprobs, drawn, lengths)

    def _generate_static(self, prompts: Sequence[Sequence[int]], uniforms: Tensor, limits: Tensor) -> list[Sample]:
        """All rows to the end, in arrays of fixed size; recorded and replayed on a GPU."""
        rows, most = uniforms.shape
        needed = Prompts(prompts, self.device).end + most
        loop = self._loop
        if loop is None or not loop.fits(rows, needed, most):
            self._loop = None  # free the old arrays before the new ones are made
            capacity = -(-needed // (4 * VIEW)) * 4 * VIEW  # rounded up: batches of similar length share arrays
            loop = self._loop = StaticLoop(
                causal(self.model),
                (rows, capacity, most),
                self.stops,
                lambda logits, uniform, seen: draw(logits, uniform, seen, self.settings),
                penalise=self._penalises,
                engine=self.engine,
            )
        full = [*prompts, *[prompts[0]] * (loop.rows - rows)]
        tokens, logprobs, drawn, lengths = loop.run(Prompts(full, self.device), uniforms)
        return self._samples(tokens[:rows], logprobs[:rows], drawn[:rows], torch.minimum(lengths[:rows], limits))

    @property
    def _penalises(self) -> bool:
        return self.settings.presence_penalty != 0

    def _samples(self, tokens: Tensor, logprobs: Tensor, drawn: Tensor, lengths: Tensor) -> list[Sample]:
        stops = set(self.stops.tolist())
        table = zip(tokens.tolist(), logprobs.tolist(), drawn.tolist(), lengths.tolist(), strict=True)
        return [
            Sample(tuple(row[:n]), tuple(scores[:n]), tuple(drawn_scores[:n]), row[n - 1] in stops)
            for row, scores, drawn_scores, n in table
        ]


def reply_limit(model: Any, length: int, new_tokens: int) -> int:
    """New tokens that fit into the model's context behind a prompt of this length; InputError when none does."""
    limit = getattr(causal(model).config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and length >= limit:
        raise InputError("prompt", length, f"it must be shorter than the model's {limit} tokens", "shorten it")
    return min(new_tokens, limit - length) if limit is not None else new_tokens


def uniform_rows(seed: int, rows: Sequence[int], count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Random numbers in [0, 1) for each row, [rows, count]; a row's depend on the seed and its number alone."""
    if seed < 0:
        raise InputError("seed", seed, "it must not be negative")
    return np.stack([np.random.default_rng([seed, row]).random(count) for row in rows])
