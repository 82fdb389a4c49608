"""One attempt as it travels: the types that every package passes around.

    Message, Parent  ->  Proposal  ->  Outcome  ->  RateEstimate

A prompt (messages, made from a parent) is answered by a proposal; executing it gives an outcome; the outcomes of a step
give the rate that their seconds are charged at. The run log stores proposals, outcomes and rates as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

Status = Literal[
    "ok",
    "format",
    "error",
    "timeout",
    "memory",
    "killed",
    "no-submission",
    "bad-submission",
    "no-gain",
    "wrong-result",
    "edit",
    "modified",
    "parse-failure",
    "cadence-violation",
    "reevaluation-mismatch",
    "tampered-data",
    "sandbox-failure",
]
SANDBOX_FAILURE: Status = "sandbox-failure"
FLOOR_SECONDS = 0.1  # no attempt is counted as shorter, so that none can claim an unbounded rate (paper, section 4.1)
Z_95 = 1.959963984540054  # two-sided 95 % of the normal distribution

Message = dict[str, str]
"One turn of a chat: role and content."


@dataclass(frozen=True)
class Parent:
    """An earlier attempt that the next proposal is asked to improve."""

    code: str
    message: str


@dataclass(frozen=True)
class Proposal:
    """One reply to one prompt: a ~ pi(. | s), with what learning needs to know about how it was drawn."""

    text: str
    "The reply without special tokens."
    prompt_tokens: tuple[int, ...] = ()
    reply_tokens: tuple[int, ...] = ()
    "With the end token if it was sampled. Empty when the policy does not show its tokens."
    logprobs: tuple[float, ...] = ()
    "Of each reply token under softmax(logits / temperature); empty when the policy does not report them."
    finished: bool = True
    "Whether the policy ended its turn itself; false when the token limit cut it."
    seconds: float = 0.0
    "Its share of the time that the batch took to generate."
    refusal: str = ""
    "Why the prompt got no reply (too long, refused, answered without text): the text is empty, the attempt charged."


@dataclass(frozen=True)
class Outcome:
    """One executed proposal. Only `sandbox-failure` is our fault: it enters no gradient, no rate, no buffer."""

    valid: bool
    reward: float
    "What the attempt earned: 0 when it is not valid (the objective adds the penalty)."
    score: float | None
    "The task's own metric; None when nothing could be graded."
    seconds: float
    "Seconds of the priced clock, never below the floor; the limit itself on a timeout."
    message: str
    "The message that the model gets."
    status: Status
    code: str
    "The script that was run; empty when the reply held none."
    clock: str = "wall"
    "Which clock `seconds` is: wall, cpu or warm (seconds without imports)."
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    level: str = ""
    "Isolation it ran under."
    contaminated: bool = False
    "Whether something else used its cores meanwhile, also after repeats."
    trains: bool | None = None
    "Whether the script fits a model, as far as reading it tells. Reported, never punished."
    output: str = ""
    "The end of what the script printed, for the record."
    rank_key: float | None = None
    "What valid attempts of a run are ranked by, where that is not their reward (the race). Larger is better."

    @property
    def charged(self) -> bool:
        """Whether the policy answers for it; a failure of the sandbox is ours."""
        return self.status != SANDBOX_FAILURE


def collect(outcomes: Iterable[tuple[int, Outcome]]) -> list[Outcome]:
    """The outcomes of pairs (index, outcome) in the order of their indices."""
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """The reward rate, in reward per second, and how sure we are of it."""

    rate: float
    "What is charged for a second. Finite and never negative."
    mean: float
    "Point estimate; may be negative when rewards are."
    low: float
    "Lower end of the 95 % interval."
    high: float
    "Upper end of the 95 % interval."
    count: int
    "Rows absorbed since the start."

    @property
    def price(self) -> float:
        """What is charged for a second: `rate` by a plainer name. The estimated reward rate itself is `mean`."""
        return self.rate

    def __float__(self) -> float:
        return self.price

    def __str__(self) -> str:
        known = f"{self.mean:.4g} reward per second (95 %: {self.low:.4g} to {self.high:.4g}; {self.count:,} rows)"
        return known if self.rate == self.mean else f"{known}, a second is charged {self.rate:.4g}"

    @classmethod
    def around(cls, mean: float, standard_error: float, count: int) -> Self:
        """Charge the mean, floored at 0; interval mean +- 1.96 standard errors."""
        half = Z_95 * standard_error
        return cls(max(0.0, mean), mean, mean - half, mean + half, count)
