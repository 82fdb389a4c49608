"""What the referee says about one attempt: its outcome, with the losses that the race knows of."""

from __future__ import annotations

from dataclasses import dataclass

from rewardrate.attempt import Outcome


@dataclass(frozen=True)
class Verdict(Outcome):
    """One attempt, judged. `score` is the believed loss: recomputed by the referee on its hidden tokens.

    A timeout is valid all the same when its printed lines hold (paper, appendix "NanoGPT"). `seconds` are wall clock
    from launch to exit; the cap itself on a timeout. The reward is the environment's to give.
    """

    printed_loss: float | None = None
    "What the script printed last; a claim."
    public_loss: float | None = None
    "The recomputed loss on the tokens that the script can see."
    crossed: bool = False
    "Whether it is valid and the believed loss is at or below the target."
    steps: int = 0
    "Step of the last validation."
    printed_seconds: float | None = None
    "The train_time of the last line, in seconds: the script's own word, informational only."
