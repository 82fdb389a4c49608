"""Chains that do not wait for each other: which attempts an update takes, which may start, what the rate is given.

Attempts are numbered in the order in which they start. When attempt i starts, and by which policy it is written,
depends on the attempts before i alone; so in this order they are a fair sample, however long each takes. In the order
in which they end they are not: at first the quick ones come. docs/theory.md, "Chains that do not wait".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

from rewardrate.checks import at_least
from rewardrate.errors import InputError, did_you_mean
from rewardrate.rates.rows import check_rows, check_valid

Order = Literal["start", "finish"]


class StreamRows(NamedTuple):
    """Attempts that started one after another, for `Accumulators.add`."""

    number: tuple[int, ...]
    chain: tuple[int, ...]
    reward: tuple[float, ...]
    seconds: tuple[float, ...]
    valid: tuple[bool, ...]
    charged: tuple[bool, ...]


@dataclass
class _Started:
    chain: int
    version: int
    "Updates done when it started."
    reward: float = 0.0
    seconds: float = 1.0
    valid: bool = False
    charged: bool = True


class Stream:
    """The attempts of chains that start their next attempt as soon as their own has ended.

    `order`: an update takes the next `batch` attempts in the order in which they started ("start": what a loop that
    waits would have learned from, exactly), or in which they ended ("finish": newer on average, but the first updates
    learn mostly from quick attempts). Every attempt enters one update; none is dropped.

    `age`: how many updates old an attempt may be when it is learned from; None: any. In start order its age is known
    before it starts, and it waits until that fits; with age 0 every update waits for its batch. In finish order no
    attempt starts while one older than `age` is running, and at most age + 1 + (chains - 2) // batch is reached.

    The rate always gets attempts in start order, in blocks of `batch`.
    """

    def __init__(self, chains: int, batch: int, *, age: int | None = None, order: Order = "start") -> None:
        self.chains, self.batch_size = at_least("chains", chains, 1), at_least("batch", batch, 1)
        self.age = None if age is None else at_least("age", age, 0)
        if order not in get_args(Order):
            near = did_you_mean(str(order), get_args(Order))
            raise InputError("order", order, "it must be 'start' or 'finish'", near)
        self.order: Order = order
        self.version = 0
        "Updates done."
        self.started = 0
        "Attempts started: the number of the next one."
        self._attempts: dict[int, _Started] = {}  # those that an update or the rate still needs, by number
        self._running: dict[int, int] = {}  # number -> chain, oldest first
        self._waiting: list[int] = []  # ended and not learned from, in the order in which they ended
        self._learn_from = 0  # start order: the first number of the next batch
        self._rate_from = 0  # the first number that the rate has not been given

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the attempts that have started and not ended, oldest first."""
        return tuple(self._running)

    def may_start(self) -> bool:
        """Whether an attempt that starts now can be learned from before it is too old."""
        if self.age is None:
            return True
        if self.order == "start":
            return (self.started - self._learn_from) // self.batch_size <= self.age
        return not self._running or self.age_of(next(iter(self._running))) <= self.age

    def start(self, chain: int) -> int:
        """The number of the attempt that `chain` starts now."""
        chain = at_least("chain", chain, 0)
        if chain >= self.chains:
            raise InputError("chain", chain, f"there are {self.chains} chains", "count them from 0")
        if chain in self._running.values():
            raise InputError("chain", chain, "its attempt has not ended", "end() it first")
        if not self.may_start():
            raise InputError("chain", chain, f"it would be more than {self.age} updates old", "wait: may_start()")
        number = self.started
        self._attempts[number], self._running[number] = _Started(chain, self.version), chain
        self.started += 1
        return number

    def end(self, number: int, reward: float, seconds: float, *, valid: bool = True, charged: bool = True) -> None:
        """An attempt has ended. One that is not `charged` (a failure of the sandbox) keeps its place and has no row."""
        if at_least("number", number, 0) not in self._running:
            raise InputError("number", number, "no such attempt is running", "end() each attempt once")
        attempt, succeeded = self._attempts[number], bool(check_valid(valid, 1)[0])
        if charged:
            rows = check_rows(reward, seconds, None, "zero")
            attempt.reward, attempt.seconds = float(rows.reward[0]), float(rows.seconds[0])
        attempt.valid, attempt.charged = succeeded and bool(charged), bool(charged)
        del self._running[number]
        self._waiting.append(number)

    def age_of(self, number: int) -> int:
        """Updates since an attempt started."""
        attempt = self._attempts.get(number)
        if attempt is None:
            raise InputError("number", number, "no such attempt is running or waiting")
        return self.version - attempt.version

    def batch(self, *, last: bool = False) -> tuple[int, ...] | None:
        """The numbers that the next update takes; None: not all of them have ended.

        `last`: the run is over; when nothing is running any more, what is left is a batch, smaller than the others.
        """
        size = self.batch_size
        if last and self._waiting and not self._running:
            size = min(size, len(self._waiting))
        if self.order == "finish":
            return tuple(self._waiting[:size]) if len(self._waiting) >= size else None
        return self._block(self._learn_from, size)

    def advance(self, *, last: bool = False) -> list[StreamRows]:
        """The update with `batch()` is done. Returns the blocks that the rate gets now: `Accumulators.add` each."""
        learned = self.batch(last=last)
        if learned is None:
            raise InputError("batch", None, "its attempts have not all ended", "ask batch() first")
        taken = set(learned)
        self._waiting = [number for number in self._waiting if number not in taken]
        self._learn_from += len(learned)
        self.version += 1
        blocks = []
        while True:
            left = self.started - self._rate_from
            over = last and not self._running and not self._waiting
            block = self._block(self._rate_from, min(self.batch_size, left) if over and left else self.batch_size)
            if block is None or (self.order == "start" and block[0] >= self._learn_from):
                break
            blocks.append(self._rows(block))
            self._rate_from += len(block)
        waiting = set(self._waiting)
        self._attempts = {
            number: attempt
            for number, attempt in self._attempts.items()
            if number >= self._rate_from or number in waiting
        }
        return blocks

    def _block(self, first: int, size: int) -> tuple[int, ...] | None:
        numbers = tuple(range(first, first + size))
        ended = all(number in self._attempts and number not in self._running for number in numbers)
        return numbers if ended else None

    def _rows(self, numbers: tuple[int, ...]) -> StreamRows:
        found = [self._attempts[number] for number in numbers]
        columns = zip(*((one.chain, one.reward, one.seconds, one.valid, one.charged) for one in found), strict=True)
        return StreamRows(numbers, *columns)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        return {
            "settings": self._settings(),
            "version": self.version,
            "started": self.started,
            "learn_from": self._learn_from,
            "rate_from": self._rate_from,
            "running": list(self._running),
            "waiting": list(self._waiting),
            "attempts": [{"number": number, **asdict(attempt)} for number, attempt in sorted(self._attempts.items())],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one with other settings or damaged is refused and nothing is changed."""
        saved = state.get("settings") if isinstance(state, Mapping) else state
        if saved != self._settings():
            raise InputError("state.settings", saved, f"this stream has {self._settings()}")
        try:
            counts = [at_least(name, state[name], 0) for name in ("version", "started", "learn_from", "rate_from")]
            attempts = {int(row["number"]): _attempt(row) for row in state["attempts"]}
            waiting = [int(number) for number in state["waiting"]]
            running = {int(number): attempts[int(number)].chain for number in state["running"]}
            numbers = [*state["running"], *waiting]
            if len(set(numbers)) != len(numbers) or not set(numbers) <= set(attempts) <= set(range(counts[1])):
                raise ValueError("running and waiting attempts do not fit")
            if len(set(running.values())) != len(running) or list(running) != sorted(running):
                raise ValueError("a chain runs one attempt at a time")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError("state", sorted(state), f"it cannot be restored ({error})") from None
        self.version, self.started, self._learn_from, self._rate_from = counts
        self._attempts, self._running, self._waiting = attempts, running, waiting

    def _settings(self) -> dict[str, Any]:
        return {"chains": self.chains, "batch": self.batch_size, "age": self.age, "order": self.order}


def _attempt(row: Mapping[str, Any]) -> _Started:
    """An attempt from a saved state."""
    kept = {name: value for name, value in row.items() if name != "number"}
    found = _Started(**kept)
    check_rows(found.reward, found.seconds, [found.valid], "zero")
    at_least("chain", found.chain, 0)
    at_least("version", found.version, 0)
    if not isinstance(found.charged, bool):
        raise ValueError("charged is true or false")
    return found
