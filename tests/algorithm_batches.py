"""Batches of random matrices for algorithms alone, without a network."""

import torch

from rewardrate.policies.algorithms import Batch


def batch(rewards, groups, *, seed=0, kl_coefficient=0.0, moved=0.3):
    """A batch in float64 with ragged replies; log-probabilities differ from old and reference by about `moved`."""
    generator = torch.Generator().manual_seed(seed)
    count, width = len(rewards), 7
    draw = lambda: torch.randn(count, width, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, width + 1, (count,), generator=generator)
    mask = torch.arange(width) < lengths.unsqueeze(1)
    old = draw() * mask
    logprobs = (old + moved * draw()) * mask
    made = Batch(
        mask=mask,
        rewards=torch.tensor(rewards, dtype=torch.float64),
        groups=torch.tensor(groups),
        old_logprobs=old,
        reference_logprobs=(old + moved * draw()) * mask,
        old_values=torch.zeros_like(old),
        kl_coefficient=kl_coefficient,
        advantages=torch.zeros_like(old),
        returns=torch.zeros_like(old),
    )
    return made, logprobs
