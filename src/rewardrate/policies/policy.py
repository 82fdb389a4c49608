"""What every policy can be asked, and what a recipe needs to know of one before there is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from rewardrate.attempt import Message, Proposal

GROUP = "rewardrate.policies"  # of entry points: name of a kind -> its PolicySettings


class Policy(ABC):
    """What training asks of a policy: propose, and learn from what the proposals earned.

    `engine`, `keep_replies` and `take_cores` have defaults that most policies keep.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What a run's record calls it."""

    @property
    @abstractmethod
    def trainable(self) -> bool:
        """Whether `learn` changes anything."""

    @property
    def engine(self) -> str:
        """What draws the replies, and why, where that is worth a line in the record."""
        return ""

    @abstractmethod
    def propose(self, prompts: Sequence[list[Message]], seed: int, first: int = 0) -> list[Proposal]:
        """One proposal a prompt; same weights, prompt, seed and row give the same proposal, whatever else is asked.

        `first`: the row of the first prompt; others than 0 are asked for where chains do not wait for each other.
        """

    @abstractmethod
    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float | None]) -> dict[str, float]:
        """One update from what each proposal earned; None leaves a row out. Returns metrics by name."""

    @abstractmethod
    def count(self, text: str) -> int:
        """How many tokens `text` has."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything that is needed to resume bit for bit: safetensors and JSON."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote. Raises InputError, with nothing changed, if it does not fit."""

    def keep_replies(self, path: Path) -> None:  # noqa: B027, most have nothing to keep
        """Where replies of the step under way may be kept, so that a run that fails in it pays for none of them again.

        Called once, before the first step of every process. The file goes when the run has ended.
        """

    def take_cores(self, usable: int) -> int:
        """How many of this machine's usable cores it computes on from now on; no script is timed on them meanwhile.

        Asked where scripts run beside it on this machine and chains do not wait. 0: it computes elsewhere.
        """
        return 0


class PolicySettings(ABC):
    """The table [policy] of a recipe, and what registers a kind: a frozen dataclass with a field `kind`.

    An installed package offers one as an entry point of the group `rewardrate.policies`, under the kind's name.
    """

    kind: str
    "The name of the kind."
    weights: ClassVar[str] = ""
    "The key that names the weights a run begins with, for comparisons that begin from others; empty if it has none."

    @abstractmethod
    def make(self, seed: int) -> Policy:
        """The policy; `seed` is the run's."""

    @property
    def label(self) -> str:
        """What a run's record calls the policy."""
        return self.kind

    @property
    def attempts_per_prompt(self) -> int:
        """Rows of the batch that share one prompt."""
        return 1

    def for_stream(self) -> Self:
        """The settings for chains that do not wait, where an attempt is learned from after later updates.

        InputError for a policy that cannot learn from what an earlier one wrote.
        """
        return self

    def check_weights(self, name: str) -> None:  # noqa: B027, not every kind has them
        """InputError where a run cannot begin with these weights."""

    def check_device(self) -> None:  # noqa: B027, not every kind computes here
        """InputError for a device that this machine does not have."""
