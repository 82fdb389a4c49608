"""GRPO: attempts at one prompt are compared with each other, not with a critic (Shao et al., arXiv:2402.03300)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from rewardrate.config import AtLeast
from rewardrate.policies.algorithms.algorithm import Algorithm, Batch, Loss, Mean, group_statistics, on_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class GRPO(Algorithm):
    """PPO's clipped surrogate on rewards relative to their group; distance to the reference is paid in the loss."""

    kind: Literal["grpo"] = "grpo"
    attempts: Annotated[int, AtLeast(2)] = 8
    "Attempts at one prompt: the group that is compared. The batch is a multiple of it."
    clip: Annotated[float, AtLeast(0)] = 0.2
    "The ratio may move this far from 1 before its gradient stops."
    scale: Literal["group", "none"] = "group"
    "Whether a group's rewards are brought to variance 1 (the paper of GRPO), or left as they are (Dr. GRPO)."
    epsilon: Annotated[float, AtLeast(0)] = 1e-4
    "Added to a group's spread; TRL adds 1e-4, verl 1e-6."
    mean: Mean = "tokens"
    "Of the loss: over all tokens (DAPO; the default of TRL and verl), or rows: over each reply, then over replies."

    @property
    def attempts_per_prompt(self) -> int:
        """The size of a group."""
        return self.attempts

    def advantages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Reward above the group's mean, in units of its spread (section 4.1.2); 0 for a row that is left alone.

        A = (r - mean(r of the group)) / (std(r of the group) + epsilon)
        """
        mean, spread, _ = group_statistics(batch.rewards, batch.groups)
        above = batch.rewards - mean
        if self.scale == "group":
            above = above / (spread + self.epsilon).clamp(min=1e-12)
        found = on_tokens(above, batch)
        return found, found

    def loss(self, batch: Batch, logprobs: Tensor, values: Tensor) -> Loss:
        """The clipped surrogate plus the priced distance to the reference (equations 3 and 4)."""
        from rewardrate.policies import policy_gradient as pg

        ratio = pg.log_ratio(logprobs, batch.old_logprobs, batch.mask)
        policy, clipped = pg.surrogate(ratio, batch.advantages, self.clip)
        if batch.kl_coefficient > 0:
            policy = policy + batch.kl_coefficient * pg.kl_estimate(logprobs, batch.reference_logprobs, batch.mask)
        return Loss(policy, mean=self.mean, shares={"clip_share": clipped})
