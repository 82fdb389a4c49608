"""Policy gradients for language models in pure functions: PPO's, and what its relatives share with it.

Shapes: B rows (one reply each), R reply positions (replies are right-padded), V tokens in the vocabulary, N reply
tokens of all rows laid end to end. `mask` [B, R] is true on reply tokens. A mean over tokens is always
sum / `tokens`, where `tokens` counts the whole mini-batch: a caller that walks through micro-batches passes the same
`tokens` to each and adds the results, so the gradient does not depend on how the batch was cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

RATIO_LIMIT = 20.0  # |log ratio| beyond which exp would only make infinities


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float = 1.0, chunk: int = 1024) -> Tensor:
    """Log-probability of each token under the distribution that was sampled from: log softmax(logits / temperature).

    logits [..., V], tokens [...] -> [...] in float32 (float64 stays). Walks through `chunk` positions at a time, so
    the only large array is the one that came in.
    """
    assert logits.shape[:-1] == tokens.shape
    flat, chosen = logits.reshape(-1, logits.shape[-1]), tokens.reshape(-1)
    parts = [
        _logprobs(rows, picks, temperature)
        for rows, picks in zip(torch.split(flat, chunk), torch.split(chosen, chunk), strict=True)
    ]
    return (torch.cat(parts) if parts else flat.sum(-1)).reshape(tokens.shape)


def _logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    return _scaled(logits, temperature).log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Entropy of softmax(logits / temperature) in nats: logsumexp(z) - sum(p * z). [..., V] -> [...]."""
    scaled = _scaled(logits, temperature)
    return scaled.logsumexp(-1) - (scaled.softmax(-1) * scaled).sum(-1)


def scores(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """`token_logprobs` and `entropy` in one, with a gradient that is written out: a third of the passes over [N, V].

    logits [N, V], tokens [N] -> [N], [N].
    """
    assert logits.shape[:-1] == tokens.shape
    return _Scores.apply(logits, tokens, temperature)  # type: ignore[no-untyped-call, no-any-return]


class _Scores(torch.autograd.Function):
    """With l = log softmax(z), z = logits / temperature, p = exp(l) and H = -sum(p * l).

    d l[token] / dz = [z is the token's] - p        d H / dz = -p * (l + H)
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        table = _scaled(logits, temperature).log_softmax(-1)
        uncertainty = -table.exp().mul_(table).sum(-1)
        ctx.save_for_backward(table, tokens, uncertainty)
        ctx.temperature, ctx.kind = temperature, logits.dtype
        return table.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), uncertainty

    @staticmethod
    def backward(ctx: Any, by_logprob: Tensor, by_entropy: Tensor) -> tuple[Tensor, None, None]:
        table, tokens, uncertainty = ctx.saved_tensors
        for_token, for_entropy = ((part / ctx.temperature).unsqueeze(-1) for part in (by_logprob, by_entropy))
        slope = (table + uncertainty.unsqueeze(-1)).mul_(-for_entropy).sub_(for_token).mul_(table.exp())
        slope.scatter_add_(-1, tokens.unsqueeze(-1), for_token)
        return slope.to(ctx.kind), None, None


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    exact = logits if logits.dtype == torch.float64 else logits.float()
    return exact / temperature if temperature != 1.0 else exact


def token_rewards(
    terminal_reward: Tensor, logprobs: Tensor, reference_logprobs: Tensor, kl_coefficient: float, mask: Tensor
) -> Tensor:
    """Reward of every reply token: minus the priced log-ratio to the reference, plus the row's reward on its last.

        r_t = -kl_coefficient * (logprob_t - reference_logprob_t)  (+ terminal_reward at the last token)

    terminal_reward [B], the others [B, R] -> [B, R], zero outside the mask. The plain log-ratio is the estimator of
    the paper's code; its mean over replies is KL(policy || reference).
    """
    assert logprobs.shape == reference_logprobs.shape == mask.shape
    assert terminal_reward.shape == (len(mask),)
    rewards = -kl_coefficient * (logprobs - reference_logprobs)
    rewards = _inside(rewards, mask)
    position = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask, position, -1).amax(1)
    at_last = position == last.unsqueeze(1)
    return rewards + at_last * terminal_reward.to(rewards.dtype).unsqueeze(1)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, discount: float = 1.0, trace: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and the returns they imply; all [B, R].

        delta_t = r_t + discount * V_{t+1} - V_t            (V = 0 after the last token)
        A_t     = delta_t + discount * trace * A_{t+1}
        G_t     = A_t + V_t

    Positions outside the mask are stepped over and are zero in the result. With discount = trace = 1 (paper) A_t is
    the reward still to come minus V_t.
    """
    assert rewards.shape == values.shape == mask.shape
    reward, value, here = (part.detach().cpu().numpy() for part in (rewards, values, mask))  # many small steps: no GPU
    found = np.zeros_like(value)
    following_value, following_advantage = np.zeros_like(value[:, 0]), np.zeros_like(value[:, 0])
    for t in range(value.shape[1] - 1, -1, -1):
        delta = reward[:, t] + discount * following_value - value[:, t]
        advantage = delta + discount * trace * following_advantage
        following_value = np.where(here[:, t], value[:, t], following_value)
        following_advantage = np.where(here[:, t], advantage, following_advantage)
        found[:, t] = np.where(here[:, t], advantage, 0)
    advantages = torch.from_numpy(found).to(values.device)
    returns = _inside(advantages + values, mask)
    return advantages, returns


def whiten(advantages: Tensor, mask: Tensor, floor: float = 0.0) -> Tensor:
    """Advantages with mean 0 and variance 1 over all reply tokens of the batch; zero outside the mask.

    A spread below `floor` is not stretched further: they are divided by the floor. Without one (0, the paper), a batch
    in which all rows earn the same has its critic's errors blown up to size 1, and unlearns what it did well.
    In float64 inside, so that equal advantages become zeros and not amplified rounding. Fewer than two tokens have no
    spread: they become zero.
    """
    assert advantages.shape == mask.shape
    kept = advantages[mask].double()
    whitened = torch.zeros_like(advantages)
    if kept.numel() > 1:
        spread = (kept.var() + 1e-8).sqrt().clamp(min=floor)
        whitened[mask] = ((kept - kept.mean()) / spread).to(advantages.dtype)
    return whitened


def log_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """How much likelier each reply token has become, as a logarithm: logprob - old_logprob. All [B, R]."""
    assert logprobs.shape == old_logprobs.shape == mask.shape
    return _inside(logprobs, mask) - _inside(old_logprobs, mask)


def importance_weights(log_ratio: Tensor, limit: float, whole_replies: bool = False) -> tuple[Tensor, Tensor]:
    """Weights that make a sample of the policy that wrote one of the policy before the update, and which are cut.

        weight = min(exp(log_ratio), limit),   log_ratio = log pi_before - log pi_wrote, zero outside the mask

    All [B, R]. The decoupled objective of Hilton, Cobbe and Schulman (arXiv:2110.00641): the clip then bounds how far
    this update moves the policy, not how far those since the reply have. With `whole_replies` the weight of every token
    is that of its reply. Cutting at `limit` trades variance for bias.
    """
    if whole_replies:
        log_ratio = log_ratio.sum(1, keepdim=True).expand(log_ratio.shape)
    weights = log_ratio.exp()
    return weights.clamp(max=limit), weights > limit


def surrogate(log_ratio: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """Clipped surrogate of each token, and whether the clip is active there; all [B, R] (PPO, equation 7).

    ratio = exp(log_ratio)
    loss  = max(-A * ratio, -A * clamp(ratio, 1 - clip, 1 + clip))
    """
    assert log_ratio.shape == advantages.shape
    ratio = log_ratio.clamp(-RATIO_LIMIT, RATIO_LIMIT).exp()
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip, 1 + clip)
    return torch.maximum(plain, clipped), clipped > plain


def value_error(
    values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """Clipped squared error of the critic at each token, and whether the clip is active there; all [B, R].

    near = old_value + clamp(value - old_value, -clip, clip)
    loss = 0.5 * max((value - G)^2, (near - G)^2)
    """
    assert values.shape == old_values.shape == returns.shape == mask.shape
    values, old_values, returns = (_inside(part, mask) for part in (values, old_values, returns))
    near = old_values + (values - old_values).clamp(-clip, clip)
    plain, clipped = (values - returns) ** 2, (near - returns) ** 2
    return 0.5 * torch.maximum(plain, clipped), clipped > plain


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor) -> Tensor:
    """KL(policy || reference) from one sample a token, never negative: exp(d) - d - 1 with d = log pi_ref - log pi.

    All [B, R]; GRPO, equation 4.
    """
    further = -log_ratio(logprobs, reference_logprobs, mask).clamp(-RATIO_LIMIT, RATIO_LIMIT)
    return further.exp() - further - 1


def entropy_bonus(entropies: Tensor, mask: Tensor, coefficient: float, tokens: int) -> Tensor:
    """What is subtracted from the loss so that the policy keeps trying: coefficient * sum(entropy) / tokens."""
    return coefficient * masked_sum(entropies, mask) / tokens


def mean_over_rows(values: Tensor, mask: Tensor, rows: int) -> Tensor:
    """Mean over each row's reply tokens, then over `rows`, the rows of the whole mini-batch. [B, R] -> []."""
    assert values.shape == mask.shape
    return (_inside(values, mask).sum(1) / mask.sum(1)).sum() / rows


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum over the mask; what lies outside, also NaN, does not enter the sum or the gradient."""
    assert values.shape == mask.shape
    return _inside(values, mask).sum()


def _inside(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, torch.zeros_like(values))
