"""RLOO: REINFORCE; the baseline is what other attempts at the prompt earned (Ahmadian et al., arXiv:2402.14740)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from rewardrate.config import AtLeast
from rewardrate.policies.algorithms.algorithm import Algorithm, Batch, Loss, group_statistics, on_tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RLOO(Algorithm):
    """A whole reply is one action: one advantage, one ratio, and distance to the reference is paid in its reward."""

    whole_replies: ClassVar[bool] = True

    kind: Literal["rloo"] = "rloo"
    attempts: Annotated[int, AtLeast(2)] = 4
    "Attempts at one prompt; each is compared with the others. The batch is a multiple of it."
    clip: Annotated[float, AtLeast(0)] = 0.2
    "The ratio of a whole reply may move this far from 1 before its gradient stops."

    @property
    def attempts_per_prompt(self) -> int:
        """The size of a group."""
        return self.attempts

    def advantages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Reward after KL, less the mean of the n - 1 others (section 3.3); 0 for a row that is left alone.

        r - mean(r of the others) = (r - mean(r of the group)) * n / (n - 1)
        """
        from rewardrate.policies import policy_gradient as pg

        rewards = pg.token_rewards(
            batch.rewards, batch.old_logprobs, batch.reference_logprobs, batch.kl_coefficient, batch.mask
        ).sum(1)
        mean, _, count = group_statistics(rewards, batch.groups)
        found = on_tokens((rewards - mean) * count / (count - 1).clamp(min=1), batch)
        return found, found

    def loss(self, batch: Batch, logprobs: Tensor, values: Tensor) -> Loss:
        """The clipped surrogate on the ratio of whole replies, mean over replies; at ratio 1 it is REINFORCE."""
        from rewardrate.policies import policy_gradient as pg

        ratio = pg.log_ratio(logprobs, batch.old_logprobs, batch.mask).sum(1, keepdim=True).expand(batch.mask.shape)
        policy, clipped = pg.surrogate(ratio, batch.advantages, self.clip)
        return Loss(policy, mean="rows", shares={"clip_share": clipped})
