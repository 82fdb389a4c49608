"""What a policy proposes, and what every policy can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

Message = dict[str, str]
"One turn of a chat: role and content."


@dataclass(frozen=True)
class Proposal:
    """One reply to one prompt: a ~ pi(. | s), with what learning needs to know about how it was drawn."""

    text: str
    "The reply without special tokens."
    prompt_tokens: tuple[int, ...] = ()
    reply_tokens: tuple[int, ...] = ()
    "With the end token if it was sampled. Empty when the policy does not show its tokens."
    logprobs: tuple[float, ...] = ()
    "Of each reply token under softmax(logits / temperature); empty when the policy does not tell."
    finished: bool = True
    "Whether the policy ended its turn itself; false when the token limit cut it."
    seconds: float = 0.0
    "Its share of the time that the batch took to generate."
    refusal: str = ""
    "Why the prompt got no reply (too long, not liked, answered without text): the text is empty, the attempt charged."


@runtime_checkable
class Policy(Protocol):
    """What the loop asks of a policy: propose, and learn from what the proposals earned."""

    @property
    def name(self) -> str:
        """What a run's record calls it."""

    @property
    def trainable(self) -> bool:
        """Whether `learn` changes anything."""

    def propose(self, prompts: Sequence[list[Message]], seed: int) -> list[Proposal]:
        """One proposal a prompt; same weights, prompts and seed give the same proposals."""

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float | None]) -> dict[str, float]:
        """One update from what each proposal earned; None leaves a row out. Returns metrics by name."""

    def count(self, text: str) -> int:
        """How many tokens `text` has."""

    def save(self, folder: Path) -> None:
        """Write everything that is needed to go on bit for bit: safetensors and JSON."""

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote. Raises InputError, with nothing changed, if it does not fit."""
