"""What an algorithm is: how a batch of rewards becomes advantages, and advantages a loss.

Shapes: B rows (one reply each), R reply positions. The learner makes every pass through the networks, cuts batches
into micro-batches and averages; an algorithm is arithmetic on what those passes said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from torch import Tensor

Mean = Literal["tokens", "rows"]


@dataclass
class Batch:
    """What a batch of B rows knows before its first step; matrices are [B, R] and say nothing outside the mask."""

    mask: Tensor
    "True on reply tokens."
    rewards: Tensor
    "[B] what each row earned."
    groups: Tensor
    "[B] rows with the same number are attempts at the same prompt."
    old_logprobs: Tensor
    reference_logprobs: Tensor
    "Of the frozen policy; zero where kl_coefficient is 0, for then there is none."
    old_values: Tensor
    "Of the critic; zero where there is none."
    kl_coefficient: float
    advantages: Tensor
    returns: Tensor
    weights: Tensor | None = None
    "What the learner multiplies the policy's loss by, where replies may be older than the network; else nothing."

    def rows(self, index: Tensor) -> Batch:
        """The same of some of its rows."""
        matrices = {name: part for name, part in vars(self).items() if name != "kl_coefficient" and part is not None}
        parts = {name: part[index] for name, part in matrices.items()}
        return Batch(**(vars(self) | parts))


@dataclass
class Loss:
    """What is to be made small, for every reply token apart: the learner takes the means."""

    policy: Tensor
    "[B, R]"
    value: Tensor | None = None
    "[B, R] error of the critic; None without one."
    mean: Mean = "tokens"
    "Of the policy's: over all tokens of a mini-batch, or over each row's and then over rows."
    shares: dict[str, Tensor] = field(default_factory=dict)
    "[B, R] further metrics by name; what is recorded is their mean over tokens."


class Algorithm(ABC):
    """A member is a frozen dataclass: `kind` is its name in a recipe, its other fields are settings of its own."""

    needs_critic: ClassVar[bool] = False
    whole_replies: ClassVar[bool] = False
    "Whether an action is a whole reply and not a token: its importance weight is then that of the reply."

    @property
    def attempts_per_prompt(self) -> int:
        """Rows of a batch that share one prompt: rows p * attempts to (p + 1) * attempts - 1 are a group."""
        return 1

    @abstractmethod
    def advantages(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Advantages, and returns that a critic is trained on (without one they are not looked at); [B, R] each."""

    @abstractmethod
    def loss(self, batch: Batch, logprobs: Tensor, values: Tensor) -> Loss:
        """The loss of some rows, from log-probabilities and values [B, R] as they are now, with their graph."""


def group_statistics(rewards: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, spread (unbiased; 0 of a single row) and number of rows of each row's group; [B], [B] -> [B] each.

    In float64, so that a group whose rows all earn the same has a spread of nothing and not of rounding.
    """
    import torch

    assert rewards.shape == groups.shape == (len(rewards),)
    _, place = torch.unique(groups, return_inverse=True)
    empty = torch.zeros(int(place.max()) + 1, dtype=torch.float64, device=rewards.device)
    exact = rewards.double()
    count = empty.index_add(0, place, torch.ones_like(exact))
    mean = empty.index_add(0, place, exact) / count
    squares = empty.index_add(0, place, (exact - mean[place]) ** 2)
    return mean[place], (squares / (count - 1).clamp(min=1)).sqrt()[place], count[place]


def on_tokens(values: Tensor, batch: Batch) -> Tensor:
    """One number a row, [B], on each of its reply tokens, [B, R]."""
    assert values.shape == batch.rewards.shape
    return values.to(batch.rewards.dtype).unsqueeze(1) * batch.mask
