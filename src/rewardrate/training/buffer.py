"""The solution buffer: the best scripts so far, from which the next prompts are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from rewardrate.attempt import Outcome
from rewardrate.checks import at_least, finite
from rewardrate.config import AtLeast, Between
from rewardrate.environments.changes import changed_lines
from rewardrate.errors import InputError

Copies = Literal["one", "all"]
OLD = {"worth": "ranking_reward"}  # names of fields in the states of earlier versions


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
    ranking_reward: float | None = None
    "What it is ranked by before it pays for its seconds, where that is not its reward (the race)."
    changed_lines: int = 0
    "Lines taken away and added since its parent; counted only for a buffer with a quota for large edits."
    seed: str = ""
    "Name of the record it is; empty for an attempt. A seed's attempt number is -1, -2, ..."

    @property
    def number(self) -> int | None:
        """Its attempt number; None for a seed, which is no attempt of the run."""
        return None if self.seed else self.attempt

    def key(self, price: float) -> float:
        """What it is ranked by: reward - price * seconds. Paper, equation (mle:key)."""
        return (self.reward if self.ranking_reward is None else self.ranking_reward) - price * self.seconds


@dataclass(frozen=True)
class LargeEdits:
    """Slots kept for children of large edits, so that small changes do not crowd out large ones. Paper, section 4.3."""

    share: Annotated[float, Between(0, 1)] = 0.5
    "Of the selected solutions."
    lines: Annotated[int, AtLeast(1)] = 20
    "Changed lines that make an edit large."


class SolutionBuffer:
    """At most `capacity` valid solutions, ranked by their relative reward at the current price.

    Rank: key, highest first; then newer step first; then lower attempt number. Every step the whole buffer is ranked
    anew, so a change of price reorders old solutions too. What falls out is gone.

    Identical code is held once (`copies="one"`), with its latest measurement: keeping the best of many would
    keep the luckiest clock. A copy therefore replaces its original, and becomes the parent. `record` remembers the
    code's best reward, so that a script with a random result cannot earn the bonus again and again by falling back.
    `copies="all"` keeps every copy, as the paper's authors did.

    With `large`, that share of the slots goes to the best solutions among large edits (if there are any), the others
    to the best of all; a solution can be in both.
    """

    def __init__(self, capacity: int, *, copies: Copies = "one", large: LargeEdits | None = None) -> None:
        self.capacity = at_least("capacity", capacity, 1)
        self.large = large
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

    def absorb(
        self,
        outcomes: Sequence[Outcome],
        attempts: Sequence[int],
        step: int,
        price: float,
        *,
        ranking_rewards: Sequence[float] | None = None,
        parent_codes: Sequence[str | None] | None = None,
    ) -> None:
        """Add the valid outcomes of a step (with their attempt numbers), rank all at `price`, trim to capacity.

        `ranking_rewards`: what each is ranked by instead of its reward. `parent_codes`: what each was made from, to
        count changed lines. A bad number raises InputError and nothing is changed.
        """
        rows = {"attempts": attempts, "ranking_rewards": ranking_rewards, "parent_codes": parent_codes}
        for name, given in rows.items():
            if given is not None and len(given) != len(outcomes):
                raise InputError(name, len(given), f"there are {len(outcomes)} outcomes, and each has its own")
        price = _price(price)
        new = []
        for place, (attempt, outcome) in enumerate(zip(attempts, outcomes, strict=True)):
            if outcome.valid and outcome.charged:
                parent = parent_codes[place] if parent_codes and self.large else None
                lines = 0 if parent is None else changed_lines(parent, outcome.code)
                value = None if ranking_rewards is None else ranking_rewards[place]
                value = None if value == outcome.reward else value
                new.append(_solution(attempt, outcome, step, value, lines))
        known = {solution.attempt for solution in self._ranked}
        for solution in new:
            if solution.attempt in known:
                raise InputError("attempts", solution.attempt, "that attempt is in the buffer already")
            known.add(solution.attempt)
        self._rank([*self._ranked, *new], price)

    def start_with(self, seeds: Sequence[Solution]) -> None:
        """Begin with known solutions, ranked at the price 0. Refused once the buffer holds anything."""
        if self._ranked:
            raise InputError("seeds", len(seeds), "the buffer is not empty any more", "give them before the first step")
        self._rank([_checked(seed) for seed in seeds], 0.0)

    def rank(self, price: float) -> None:
        """Rank the solutions at another price."""
        self._rank(self._ranked, _price(price))

    def select(self, count: int) -> list[Solution]:
        """The best `count` solutions, from the top again when there are fewer. Empty if there are none."""
        count = at_least("count", count, 0)
        large: list[Solution] = []
        if self.large is not None:
            edits = [solution for solution in self._ranked if solution.changed_lines >= self.large.lines]
            large = _cycled(edits, round(self.large.share * count))
        return large + _cycled(self._ranked, count - len(large))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        solutions = [state_of(solution) for solution in self._ranked]
        settings: dict[str, Any] = {"capacity": self.capacity, "copies": self.copies}
        if self.large is not None:
            settings["large"] = dataclasses.asdict(self.large)
        return {"settings": settings, "solutions": solutions}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one with other settings or damaged is refused and nothing is changed."""
        mine = self.state_dict()["settings"]
        if not isinstance(state, Mapping) or state.get("settings") != mine:
            saved = state.get("settings") if isinstance(state, Mapping) else state
            raise InputError("state.settings", saved, f"this buffer has {mine}")
        try:
            ranked = [restored(one) for one in state["solutions"]]
            if len(ranked) > self.capacity or len({solution.attempt for solution in ranked}) < len(ranked):
                raise ValueError("too many solutions, or an attempt twice")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("state", sorted(state), f"it cannot be restored ({error})") from None
        self._ranked = ranked

    def _rank(self, solutions: list[Solution], price: float) -> None:
        kept = _newest_of_each(solutions) if self.copies == "one" else solutions
        order = sorted(kept, key=lambda solution: (-solution.key(price), -solution.step, solution.attempt))
        self._ranked = order[: self.capacity]


def _cycled(solutions: list[Solution], count: int) -> list[Solution]:
    return [solutions[place % len(solutions)] for place in range(count)] if solutions else []


def restored(state: Mapping[str, Any]) -> Solution:
    """The solution that `state_of` was given; TypeError or InputError for another."""
    return _checked(Solution(**{OLD.get(name, name): value for name, value in state.items()}))


def state_of(solution: Solution) -> dict[str, Any]:
    """A solution as plain JSON; fields that only the race has are left out where they say nothing."""
    plain = {"ranking_reward": None, "changed_lines": 0, "seed": ""}
    found = dataclasses.asdict(solution)
    return {name: value for name, value in found.items() if name not in plain or value != plain[name]}


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


def _solution(attempt: int, outcome: Outcome, step: int, ranking: float | None, lines: int) -> Solution:
    reward, seconds = outcome.reward, outcome.seconds
    return _checked(
        Solution(
            attempt=attempt,
            code=outcome.code,
            message=outcome.message,
            reward=reward,
            seconds=seconds,
            step=step,
            record=reward,
            ranking_reward=ranking,
            changed_lines=lines,
        )
    )


def _checked(solution: Solution) -> Solution:
    """The same solution in plain Python numbers, or InputError."""
    if not all(isinstance(text, str) for text in (solution.code, solution.message, solution.seed)):
        raise InputError("code, message, seed", (solution.code, solution.message, solution.seed), "they must be text")
    ranking = solution.ranking_reward
    return dataclasses.replace(
        solution,
        attempt=at_least("attempt", solution.attempt, -(2**31) if solution.seed else 0),
        step=at_least("step", solution.step, 0),
        reward=finite("reward", solution.reward),
        record=finite("record", solution.record),
        seconds=finite("seconds", solution.seconds, lambda number: number > 0, "be finite and positive"),
        ranking_reward=None if ranking is None else finite("ranking_reward", ranking),
        changed_lines=at_least("changed_lines", solution.changed_lines, 0),
    )


def _price(price: float) -> float:
    return finite("price", price, lambda number: number >= 0, "be a finite number, not negative")
