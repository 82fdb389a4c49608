"""A learner for a causal language model: one call of `update` is line "PPO" of Algorithm 1, by any algorithm."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from rewardrate.config import build
from rewardrate.errors import InputError
from rewardrate.policies import policy_gradient as pg
from rewardrate.policies.algorithms import Batch
from rewardrate.policies.cache import shares_prefixes
from rewardrate.policies.network import (
    Head,
    Pack,
    ReferencePolicy,
    hidden_size,
    own_critic,
    pack,
    recompute_layers,
    reply_hidden,
    reply_logprobs,
    reply_scores,
    silence_dropout,
    trunk,
    value_head,
    values,
)
from rewardrate.policies.settings import LearnerSettings


@dataclass(frozen=True)
class Experience:
    """One row of a batch: what was asked, what was replied, what it earned."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    reward: float
    logprobs: tuple[float, ...] = ()
    group: int = 0
    "Rows with the same number are attempts at the same prompt."


@dataclass
class Pass:
    """What the networks say of a micro-batch's N reply tokens, with its graph; each [N]."""

    packed: Pack
    logprobs: Tensor
    entropies: Tensor
    values: Tensor | None


class Learner:
    """A policy, its frozen reference, and a critic where the algorithm needs one; on one device, weights in fp32.

    On a CPU two learners with the same seed, weights and batches end with equal bits.
    """

    def __init__(self, model: Any, settings: LearnerSettings, temperature: float = 1.0, seed: int = 0) -> None:
        self.model, self.temperature = model, temperature
        self.settings = settings = build(
            LearnerSettings, {one.name: getattr(settings, one.name) for one in fields(settings)}, "learner."
        )
        self.algorithm = settings.algorithm
        self.device = next(model.parameters()).device
        self.dtype = torch.float64 if next(model.parameters()).dtype == torch.float64 else torch.float32
        half = sorted(
            {str(p.dtype) for p in model.parameters() if p.requires_grad} - {"torch.float32", "torch.float64"}
        )
        if half:
            raise InputError("model", half[0], "weights that are trained must be float32", "load it with dtype float32")
        if settings.prompts == "shared" and not shares_prefixes(model):
            rule = "this model's attention cannot tell rows on one line apart"
            raise InputError("learner.prompts", "shared", rule, "use auto or apart")
        self.share = settings.prompts == "shared" or (
            settings.prompts == "auto" and self.device.type == "cpu" and shares_prefixes(model)
        )
        silence_dropout(model)
        model.train(settings.gradient_checkpointing)
        if settings.gradient_checkpointing:
            recompute_layers(model)
            if hasattr(model, "enable_input_require_grads") and not _embeds_learn(model):
                model.enable_input_require_grads()
        self.reference = ReferencePolicy(model) if settings.kl_coefficient > 0 else None
        self.head = Head(model)
        self.optimiser = self._adam(model, settings.learning_rate)
        self.critic: nn.Module | None = None
        self.critic_optimiser: torch.optim.AdamW | None = None
        if self.algorithm.needs_critic:
            own = settings.critic == "own"
            self.critic = own_critic(model) if own else value_head(model, hidden_size(model))
            self.critic.train(settings.gradient_checkpointing)
            self.critic_optimiser = self._adam(self.critic, settings.critic_learning_rate)
        self.shuffle = torch.Generator().manual_seed(seed)  # order of mini-batches; part of the saved state

    def update(self, rows: Sequence[Experience]) -> dict[str, float]:
        """Learn from a batch; returns means over its tokens. Raises InputError, with nothing changed, on bad rows.

        Keys: policy_loss, entropy, kl (to the reference, if there is one), the shares that the algorithm tells,
        grad_norm, step_kl (how far the policy moved within the batch), sampler_gap (mean |sampled - recomputed|
        log-probability), skipped_steps, reward, rows, tokens, seconds; with a critic value_loss, critic_grad_norm
        and explained_variance; with old_logprobs = "decoupled" weight and weight_cut_share.
        """
        start = time.perf_counter()
        _check(rows, self.settings.old_logprobs)
        if not rows:
            return {}
        first = self._first(rows)
        batch, metrics = self.prepare(rows, first)
        totals: dict[str, float] = {}
        steps = 0
        for _ in range(self.settings.epochs):
            for chosen in self._mini_batches(len(rows)):
                for key, value in self._step(rows, batch, chosen, first).items():
                    totals[key] = totals.get(key, 0.0) + value
                steps, first = steps + 1, None
        skipped = totals.pop("skipped_steps")
        metrics |= {key: value / steps for key, value in totals.items()}
        metrics |= {"skipped_steps": skipped, "rows": float(len(rows)), "tokens": float(batch.mask.sum())}
        metrics["reward"] = sum(row.reward for row in rows) / len(rows)
        metrics["seconds"] = time.perf_counter() - start
        return metrics

    def prepare(self, rows: Sequence[Experience], first: Pass | None = None) -> tuple[Batch, dict[str, float]]:
        """Old log-probabilities, values, advantages and returns of a batch, before any step is taken.

        `first` is the pass of the first step when it has been made already.
        """
        settings = self.settings
        shape = (len(rows), max(len(row.reply) for row in rows))
        mask = torch.zeros(shape, dtype=torch.bool)
        sampled = torch.zeros(shape, dtype=self.dtype)
        for i, row in enumerate(rows):
            mask[i, : len(row.reply)] = True
            if row.logprobs:
                sampled[i, : len(row.reply)] = torch.tensor(row.logprobs, dtype=self.dtype)
        mask, sampled = mask.to(self.device), sampled.to(self.device)
        recomputed, old_values, reference = self._look(rows, mask, first)
        rely = settings.old_logprobs == "sampled"
        old = sampled if rely else recomputed
        nothing = torch.zeros_like(old)
        batch = Batch(
            mask=mask,
            rewards=torch.tensor([row.reward for row in rows], dtype=self.dtype, device=self.device),
            groups=torch.tensor([row.group for row in rows], device=self.device),
            old_logprobs=old,
            reference_logprobs=reference,
            old_values=old_values,
            kl_coefficient=settings.kl_coefficient,
            advantages=nothing,
            returns=nothing,
        )
        batch.advantages, batch.returns = self.algorithm.advantages(batch)
        metrics = {"explained_variance": _explained(old_values[mask], batch.returns[mask])} if self.critic else {}
        if self.reference:
            metrics["kl"] = (old - reference)[mask].mean().item()
        if not rely and all(row.logprobs for row in rows):
            metrics["sampler_gap"] = (sampled - recomputed)[mask].abs().mean().item()
        if settings.old_logprobs == "decoupled":
            ratio = pg.log_ratio(recomputed, sampled, mask)
            batch.weights, cut = pg.importance_weights(ratio, settings.weight_limit, self.algorithm.whole_replies)
            metrics["weight"] = batch.weights[mask].mean().item()
            metrics["weight_cut_share"] = cut[mask].to(self.dtype).mean().item()
        return batch, metrics

    @torch.no_grad()
    def _look(self, rows: Sequence[Experience], mask: Tensor, first: Pass | None) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, values and the reference's log-probabilities, each [B, R]; zero where not needed."""
        found = torch.zeros((3, *mask.shape), dtype=self.dtype, device=self.device)
        logprobs, old_values, reference = found
        shared = isinstance(self.critic, nn.Linear)
        recompute = self.settings.old_logprobs != "sampled"
        for chosen in self._micro_batches(rows, range(len(rows))):
            packed = first.packed if first else self._pack(rows, chosen)
            with self._autocast():
                if first:
                    _place(logprobs, mask, chosen, first.logprobs)
                    guesses = first.values
                else:
                    hidden = reply_hidden(trunk(self.model), packed) if recompute or shared else None
                    if recompute and hidden is not None:
                        scores = reply_logprobs(hidden, self.head, packed.replies, self.temperature)
                        _place(logprobs, mask, chosen, scores)
                    guesses = self._values(packed, hidden)
                if guesses is not None:
                    _place(old_values, mask, chosen, guesses)
                if self.reference:
                    with self.reference() as (network, head):
                        known = reply_hidden(network, packed)
                        scores = reply_logprobs(known, head, packed.replies, self.temperature)
                        _place(reference, mask, chosen, scores)
        return logprobs, old_values, reference

    def _first(self, rows: Sequence[Experience]) -> Pass | None:
        """The pass of the first step, where it can serve the look before it too: one step on one micro-batch."""
        if len(rows) > min(self.settings.micro_batch, self.settings.mini_batch or len(rows)):
            return None
        (chosen,) = self._micro_batches(rows, range(len(rows)))
        with self._autocast():
            return self._pass(self._pack(rows, chosen))

    def _pass(self, packed: Pack) -> Pass:
        """Policy and critic on one micro-batch, ready for a backward pass."""
        hidden = reply_hidden(trunk(self.model), packed)
        scores, uncertainty = reply_scores(hidden, self.head, packed.replies, self.temperature)
        return Pass(packed, scores, uncertainty, self._values(packed, hidden.detach()))

    def accumulate(
        self, rows: Sequence[Experience], batch: Batch, chosen: Sequence[int], first: Pass | None = None
    ) -> dict[str, float]:
        """Gradients of the mini-batch `chosen`, added up over its micro-batches; nothing is stepped."""
        tokens = int(batch.mask[list(chosen)].sum())
        totals: dict[str, Tensor] = {}
        for micro in self._micro_batches(rows, chosen):
            part = batch.rows(torch.tensor(micro, device=self.device))
            with self._autocast():
                made = first or self._pass(self._pack(rows, micro))
                losses, parts = self._losses(made, part, tokens, len(chosen))
            for loss in losses:
                loss.backward()  # type: ignore[no-untyped-call]
            for key, value in parts.items():
                totals[key] = totals.get(key, 0.0) + value.to(self.dtype)
        return {key: float(total) for key, total in totals.items()}

    def _losses(self, made: Pass, batch: Batch, tokens: int, rows: int) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Losses of the policy and the critic on a micro-batch, and its part of each metric.

        `tokens` and `rows` count the whole mini-batch: what micro-batches add up to does not depend on the cut.
        """
        mask = batch.mask
        logprobs, entropies = (_spread(part, mask) for part in (made.logprobs, made.entropies))
        values = _spread(made.values, mask) if made.values is not None else torch.zeros_like(logprobs)
        loss = self.algorithm.loss(batch, logprobs, values)
        assert loss.policy.shape == mask.shape
        weighted = loss.policy if batch.weights is None else loss.policy * batch.weights
        over_rows = loss.mean == "rows"
        policy = pg.mean_over_rows(weighted, mask, rows) if over_rows else pg.masked_sum(weighted, mask) / tokens
        losses = [policy - pg.entropy_bonus(entropies, mask, self.settings.entropy_coefficient, tokens)]
        parts = {"policy_loss": policy}
        if loss.value is not None:
            losses.append(pg.masked_sum(loss.value, mask) / tokens)
            parts["value_loss"] = losses[1]
        shares = {"entropy": entropies, **loss.shares, "step_kl": batch.old_logprobs - logprobs}
        parts |= {key: pg.masked_sum(share, mask) / tokens for key, share in shares.items()}
        return losses, {key: part.detach() for key, part in parts.items()}

    def _step(
        self, rows: Sequence[Experience], batch: Batch, chosen: Sequence[int], first: Pass | None
    ) -> dict[str, float]:
        """One optimiser step of critic and policy; a gradient that is not finite is thrown away and counted."""
        parts = [("critic_grad_norm" if name == "critic" else "grad_norm", *part) for name, *part in self.parts()]
        for _, _, optimiser in parts:
            optimiser.zero_grad(set_to_none=True)
        totals = self.accumulate(rows, batch, chosen, first)
        totals["skipped_steps"] = 0.0
        for key, network, optimiser in reversed(parts):
            learning = [p for p in network.parameters() if p.requires_grad]
            norm = float(nn.utils.clip_grad_norm_(learning, self.settings.gradient_clip))
            totals[key] = norm
            if math.isfinite(norm):
                optimiser.step()
            else:
                totals["skipped_steps"] += 1.0
            optimiser.zero_grad(set_to_none=True)
        return totals

    def parts(self) -> list[tuple[str, Any, torch.optim.AdamW]]:
        """What learns, by name: the policy, and the critic if there is one; each with its optimiser."""
        found = [("policy", self.model, self.optimiser)]
        if self.critic is not None and self.critic_optimiser is not None:
            found.append(("critic", self.critic, self.critic_optimiser))
        return found

    def _values(self, packed: Pack, hidden: Tensor | None) -> Tensor | None:
        if self.critic is None:
            return None
        if isinstance(self.critic, nn.Linear):
            assert hidden is not None
            return values(self.critic, hidden)
        return self.critic(packed)  # type: ignore[no-any-return]

    def _mini_batches(self, rows: int) -> Iterator[list[int]]:
        size = self.settings.mini_batch or rows
        if size >= rows:
            yield list(range(rows))
            return
        order = torch.randperm(rows, generator=self.shuffle).tolist()
        yield from (order[at : at + size] for at in range(0, rows, size))

    def _micro_batches(self, rows: Sequence[Experience], chosen: Sequence[int]) -> Iterator[list[int]]:
        """Rows of like length together, longest first: least padding, and memory is known from the first one on.

        Where prompts are shared, rows with the same prompt come together instead.
        """

        def length(i: int) -> tuple[Any, ...]:
            row = rows[i]
            alone = (-len(row.prompt) - len(row.reply), i)
            return (-len(row.prompt), row.prompt, *alone) if self.share else alone

        order, size = sorted(chosen, key=length), self.settings.micro_batch
        yield from (order[at : at + size] for at in range(0, len(order), size))

    def _pack(self, rows: Sequence[Experience], chosen: Sequence[int]) -> Pack:
        return pack([rows[i].prompt for i in chosen], [rows[i].reply for i in chosen], self.device, self.share)

    def _autocast(self) -> AbstractContextManager[Any]:
        precision = self.settings.precision
        half = precision == "bf16" or (precision == "auto" and self.device.type == "cuda")
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half)

    def _adam(self, network: Any, learning_rate: float) -> torch.optim.AdamW:
        learning = [p for p in network.parameters() if p.requires_grad]
        settings = self.settings
        options: dict[str, Any] = {"betas": settings.betas, "weight_decay": settings.weight_decay}
        return torch.optim.AdamW(learning, learning_rate, fused=True, **options)


def _place(matrix: Tensor, mask: Tensor, rows: Sequence[int], flat: Tensor) -> None:
    """Write reply tokens laid end to end [N] into their rows of a [B, R] matrix."""
    index = torch.tensor(rows, device=matrix.device)
    matrix[index] = _spread(flat.to(matrix.dtype), mask[index])


def _spread(flat: Tensor, mask: Tensor) -> Tensor:
    """[N] reply tokens laid end to end -> [b, R] with zeros on padding."""
    return torch.zeros(mask.shape, dtype=flat.dtype, device=flat.device).masked_scatter(mask, flat)


def _explained(guess: Tensor, target: Tensor) -> float:
    """Share of the returns' variance that the values foresaw; 0 when the returns do not vary."""
    spread = target.double().var() if target.numel() > 1 else torch.tensor(0.0)
    return float(1 - (target - guess).double().var() / spread) if spread > 0 else 0.0


def _embeds_learn(model: Any) -> bool:
    return bool(model.get_input_embeddings().weight.requires_grad)


def _check(rows: Sequence[Experience], old_logprobs: str) -> None:
    for i, row in enumerate(rows):
        if old_logprobs != "recomputed" and not row.logprobs:
            rule = f'old_logprobs = "{old_logprobs}" needs those of the sampler, which reported none'
            raise InputError(f"rows[{i}].logprobs", row.logprobs, rule, 'set it to "recomputed"')
        if not row.prompt or not row.reply:
            raise InputError(f"rows[{i}]", row, "prompt and reply must have at least one token each")
        if not math.isfinite(row.reward):
            raise InputError(
                f"rows[{i}].reward", row.reward, "it must be a finite number", "leave the row out with None"
            )
        if row.logprobs and len(row.logprobs) != len(row.reply):
            raise InputError(f"rows[{i}].logprobs", len(row.logprobs), f"there must be {len(row.reply)}, one a token")
