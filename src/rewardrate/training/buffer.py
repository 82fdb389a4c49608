"""The solution buffer: the best scripts so far, from which the next prompts are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from rewardrate.environments.outcome import Outcome
from rewardrate.errors import InputError
from rewardrate.rates.settings import real, whole

Copies = Literal["one", "all"]


@dataclass(frozen=True)
class Solution:
    """A valid attempt that may be shown to the policy again."""

    attempt: int
    "Number of the attempt: the true parent of what is made from it."
    code: str
    message: str
    reward: float
    seconds: float
    step: int
    record: float
    "The best reward this very code ever had; what a newcomer must exceed for the bonus."

    def key(self, price: float) -> float:
        """What it is ranked by: reward - price * seconds. Paper, equation (mle:key)."""
        return self.reward - price * self.seconds


class SolutionBuffer:
    """At most `capacity` valid solutions, ranked by their relative reward at the current price.

    Rank: key, highest first; then newer step first; then lower attempt number. Every step the whole buffer is ranked
    anew, so a change of price reorders old solutions too. What falls out is gone.

    Identical code is held once (`copies="one"`), with its latest measurement: keeping the best of many would
    keep the luckiest clock. A copy therefore replaces its original, and becomes the parent. `record` remembers the
    code's best reward, so that a script with a random result cannot earn the bonus again and again by falling back.
    `copies="all"` keeps every copy, as the paper's authors did.
    """

    def __init__(self, capacity: int, *, copies: Copies = "one") -> None:
        self.capacity = whole("capacity", capacity, 1)
        if copies not in get_args(Copies):
            raise InputError("copies", copies, "it must be one of one, all")
        self.copies: Copies = copies
        self._ranked: list[Solution] = []

    def __len__(self) -> int:
        return len(self._ranked)

    def __iter__(self) -> Iterator[Solution]:
        """Solutions, best first."""
        return iter(self._ranked)

    @property
    def best_reward(self) -> float | None:
        """The best reward of the retained solutions; None when there are none."""
        return max((solution.record for solution in self._ranked), default=None)

    def absorb(self, outcomes: Sequence[Outcome], attempts: Sequence[int], step: int, price: float) -> None:
        """Add the valid outcomes of a step (with their attempt numbers), rank all at `price`, trim to capacity.

        A bad number raises InputError and nothing is changed.
        """
        if len(outcomes) != len(attempts):
            raise InputError("attempts", len(attempts), f"there are {len(outcomes)} outcomes, and each has its number")
        price = _price(price)
        new = [
            _solution(attempt, outcome, step)
            for attempt, outcome in zip(attempts, outcomes, strict=True)
            if outcome.valid and outcome.charged
        ]
        known = {solution.attempt for solution in self._ranked}
        for solution in new:
            if solution.attempt in known:
                raise InputError("attempts", solution.attempt, "that attempt is in the buffer already")
            known.add(solution.attempt)
        self._rank([*self._ranked, *new], price)

    def rank(self, price: float) -> None:
        """Rank the solutions at another price."""
        self._rank(self._ranked, _price(price))

    def select(self, count: int) -> list[Solution]:
        """The best `count` solutions, from the top again when there are fewer. Empty if there are none."""
        count = whole("count", count, 0)
        return [self._ranked[i % len(self._ranked)] for i in range(count)] if self._ranked else []

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, as plain JSON."""
        solutions = [dataclasses.asdict(solution) for solution in self._ranked]
        return {"settings": {"capacity": self.capacity, "copies": self.copies}, "solutions": solutions}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; one with other settings or damaged is refused and nothing is changed."""
        mine = self.state_dict()["settings"]
        if not isinstance(state, Mapping) or state.get("settings") != mine:
            saved = state.get("settings") if isinstance(state, Mapping) else state
            raise InputError("state.settings", saved, f"this buffer has {mine}")
        try:
            ranked = [_checked(Solution(**solution)) for solution in state["solutions"]]
            if len(ranked) > self.capacity or len({solution.attempt for solution in ranked}) < len(ranked):
                raise ValueError("too many solutions, or an attempt twice")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("state", sorted(state), f"it cannot be restored ({error})") from None
        self._ranked = ranked

    def _rank(self, solutions: list[Solution], price: float) -> None:
        kept = _newest_of_each(solutions) if self.copies == "one" else solutions
        order = sorted(kept, key=lambda solution: (-solution.key(price), -solution.step, solution.attempt))
        self._ranked = order[: self.capacity]


def _newest_of_each(solutions: list[Solution]) -> list[Solution]:
    """One solution per code: the latest attempt's, with the best reward any of them had."""
    newest: dict[str, Solution] = {}
    for solution in solutions:
        other = newest.get(solution.code)
        if other is None:
            newest[solution.code] = solution
            continue
        later = max(solution, other, key=lambda one: (one.step, one.attempt))
        newest[solution.code] = dataclasses.replace(later, record=max(solution.record, other.record))
    return list(newest.values())


def _solution(attempt: int, outcome: Outcome, step: int) -> Solution:
    return _checked(
        Solution(attempt, outcome.code, outcome.message, outcome.reward, outcome.seconds, step, outcome.reward)
    )


def _checked(solution: Solution) -> Solution:
    """The same solution in plain Python numbers, or InputError."""
    if not (isinstance(solution.code, str) and isinstance(solution.message, str)):
        raise InputError("code, message", (solution.code, solution.message), "they must be text")
    return dataclasses.replace(
        solution,
        attempt=whole("attempt", solution.attempt, 0),
        step=whole("step", solution.step, 0),
        reward=real("reward", solution.reward, lambda number: True, "be a finite number"),
        record=real("record", solution.record, lambda number: True, "be a finite number"),
        seconds=real("seconds", solution.seconds, lambda number: number > 0, "be finite and positive"),
    )


def _price(price: float) -> float:
    return real("price", price, lambda number: number >= 0, "be a finite number, not negative")
