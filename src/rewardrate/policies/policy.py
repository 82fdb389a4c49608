"""What every policy can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from rewardrate.attempt import Message, Proposal


@runtime_checkable
class Policy(Protocol):
    """What the loop asks of a policy: propose, and learn from what the proposals earned."""

    @property
    def name(self) -> str:
        """What a run's record calls it."""

    @property
    def trainable(self) -> bool:
        """Whether `learn` changes anything."""

    def propose(self, prompts: Sequence[list[Message]], seed: int, first: int = 0) -> list[Proposal]:
        """One proposal a prompt; same weights, prompt, seed and row give the same proposal, whatever else is asked.

        `first`: the row of the first prompt; others than 0 are asked for where chains do not wait for each other.
        """

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float | None]) -> dict[str, float]:
        """One update from what each proposal earned; None leaves a row out. Returns metrics by name."""

    def count(self, text: str) -> int:
        """How many tokens `text` has."""

    def save(self, folder: Path) -> None:
        """Write everything that is needed to resume bit for bit: safetensors and JSON."""

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote. Raises InputError, with nothing changed, if it does not fit."""
