"""PPO: a critic's values say how much better than expected every token was (Schulman et al., arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from rewardrate.config import AtLeast, Between
from rewardrate.policies.algorithms.algorithm import Algorithm, Batch, Loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PPO(Algorithm):
    """Clipped surrogate on generalised advantage estimates. Defaults: the paper's table, as its code runs it."""

    needs_critic: ClassVar[bool] = True

    kind: Literal["ppo"] = "ppo"
    clip: Annotated[float, AtLeast(0)] = 0.2
    "The ratio may move this far from 1 before its gradient stops."
    value_clip: Annotated[float, AtLeast(0)] = 0.5
    "A value may move this far in one batch before its gradient stops."
    discount: Annotated[float, Between(0, 1)] = 1.0
    "Of reward per token."
    trace: Annotated[float, Between(0, 1)] = 1.0
    "Lambda of the advantage estimate."
    whiten: bool = True
    "Whether advantages are brought to mean 0, variance 1 over the tokens of the batch."
    spread_floor: Annotated[float, AtLeast(0)] = 0.0
    "Smallest spread that is stretched to 1: a batch whose rows all earn the same then teaches nearly nothing."

    def advantages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Generalised advantage estimates of the reward after KL, and their returns (arXiv:1506.02438, eq. 16)."""
        from rewardrate.policies import policy_gradient as pg

        rewards = pg.token_rewards(
            batch.rewards, batch.old_logprobs, batch.reference_logprobs, batch.kl_coefficient, batch.mask
        )
        advantages, returns = pg.gae(rewards, batch.old_values, batch.mask, self.discount, self.trace)
        if self.whiten:
            advantages = pg.whiten(advantages, batch.mask, self.spread_floor)
        return advantages, returns

    def loss(self, batch: Batch, logprobs: Tensor, values: Tensor) -> Loss:
        """The clipped surrogate (eq. 7 there) and the critic's clipped error."""
        from rewardrate.policies import policy_gradient as pg

        ratio = pg.log_ratio(logprobs, batch.old_logprobs, batch.mask)
        policy, clipped = pg.surrogate(ratio, batch.advantages, self.clip)
        error, value_clipped = pg.value_error(values, batch.old_values, batch.returns, batch.mask, self.value_clip)
        return Loss(policy, error, shares={"clip_share": clipped, "value_clip_share": value_clipped})
