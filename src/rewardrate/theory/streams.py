"""Chains that do not wait, under a fixed policy: what each way of forming batches and of counting time makes of it.

Two kinds of attempts, a quick one (1 second, reward 1) and a slow one (`slow` seconds, reward 3). Every linear
statement about a batch, its gradient included, is one about its share of slow attempts.
Shapes: N attempts in the order in which they start, U updates. docs/theory.md, "Chains that do not wait".
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from rewardrate.errors import InputError
from rewardrate.rates.stream import Order, Stream
from rewardrate.theory.tables import Array

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TwoKinds:
    """Quick attempts and slow ones, `share` of which a policy chooses; `jitter` is the sd of their log seconds."""

    slow: float
    share: float = 0.5
    jitter: float = 0.0
    rewards: tuple[float, float] = (1.0, 3.0)

    @property
    def seconds(self) -> float:
        """Mean seconds of an attempt."""
        return 1 + self.share * (self.slow - 1)

    @property
    def rate(self) -> float:
        """Reward per second."""
        quick, slow = self.rewards
        return (quick + self.share * (slow - quick)) / self.seconds

    def draw(self, rng: np.random.Generator, size: int | tuple[int, int]) -> tuple[Flags, Array, Array]:
        """Whether slow, reward and seconds of independent attempts."""
        slow = rng.random(size) < self.share
        noise = np.exp(self.jitter * rng.standard_normal(size) - self.jitter**2 / 2)
        return slow, np.where(slow, self.rewards[1], self.rewards[0]), np.where(slow, self.slow, 1.0) * noise

    def lost_share(self, chains: int, ended: int) -> float:
        """What the share of slow attempts among the first `ended` to end falls short by, to first order.

        (C - 1) Cov(slow, delta) / (n E[delta]): once the seconds of the C - 1 that run then are length-biased.
        """
        return (chains - 1) / ended * self.share * (1 - self.share) * (self.slow - 1) / self.seconds

    def early_rates(self, chains: int, ended: int) -> tuple[float, float]:
        """Rate over true rate after the first `ended`: completed time only, and with running time. To first order."""
        mean, quick, slow = self.seconds, *self.rewards
        spread = self.share * (1 - self.share) * (self.slow - 1)
        variation = spread * (self.slow - 1) / mean**2
        shared = spread * (slow - quick) / (mean * self.rate * mean)
        few = (chains - 1) / ended
        return 1 + few * (variation - shared), 1 + few * ((variation - 1) / 2 - shared)


class Schedule(NamedTuple):
    """What chains did that never wait, by order of start (N); under a fixed policy batches do not change it."""

    slow: Flags
    reward: Array
    seconds: Array
    start: Array
    following: Ints
    "The number of the chain's next attempt; -1 behind the last."

    @property
    def end(self) -> Array:
        """When they end."""
        ended: Array = self.start + self.seconds
        return ended


def schedule(kinds: TwoKinds, chains: int, attempts: int, rng: np.random.Generator) -> Schedule:
    """At least `attempts` that end before the first chain runs out of draws."""
    each = 2 * (attempts // chains + 20)
    while True:
        drawn = kinds.draw(rng, (chains, each))
        end = drawn[2].cumsum(axis=1)
        start = end - drawn[2]
        known = end[:, -1].min()
        if (end <= known).sum() >= attempts + chains:
            break
        each *= 2
    place = np.argsort(start, axis=None, kind="stable")
    number = np.empty(place.size, dtype=np.int64)
    number[place] = np.arange(place.size)
    following = np.append(number.reshape(chains, each)[:, 1:], np.full((chains, 1), -1), axis=1)
    columns = [np.asarray(column).ravel()[place] for column in (*drawn, start, following)]
    return Schedule(*columns)


def by_start(batch: int, updates: int) -> Ints:
    """U x batch: numbers in the order of start."""
    return np.arange(updates * batch).reshape(updates, batch)


def by_finish(found: Schedule, batch: int, updates: int) -> Ints:
    """U x batch: numbers in the order in which they end."""
    return np.argsort(found.end, kind="stable")[: updates * batch].reshape(updates, batch)


def without_stale(found: Schedule, batch: int, updates: int, keep: int) -> Ints:
    """U x batch in the order of ending, without those that are more than `keep` updates old when they end."""
    version = np.zeros(found.start.size, dtype=np.int64)
    taken: list[int] = []
    done = 0
    for number in np.argsort(found.end, kind="stable").tolist():
        if done - version[number] <= keep:
            taken.append(number)
        version[found.following[number]] = done
        done = len(taken) // batch
        if done == updates:
            return np.array(taken).reshape(updates, batch)
    raise InputError("keep", keep, "too few attempts are left", "draw more of them")


def stale_share(kinds: TwoKinds, chains: int, batch: int, keep: int) -> float:
    """The share of slow attempts in the long run where those more than `keep` updates old are dropped.

    A share q of the slow ones is kept, so an update takes tau = B E[delta] / (C (p_quick + p_slow q)); an attempt of
    d seconds sees d / tau updates, rounded up or down by chance: q = keep + 1 - d / tau, within [0, 1].
    """
    slow, quick = kinds.share, 1 - kinds.share
    seen = chains * kinds.slow / (batch * kinds.seconds)
    kept = min(1.0, max(0.0, (keep + 1 - seen * quick) / (1 + seen * slow)))
    return slow * kept / (quick + slow * kept)


def first_share(kinds: TwoKinds, wanted: int, started: int) -> float:
    """The share of slow attempts among the first `wanted` to end of `started` that start together."""
    quick = np.arange(started + 1)
    chance = binom.pmf(quick, started, 1 - kinds.share)
    return float(chance @ np.maximum(0, wanted - quick)) / wanted


class RateBounds(NamedTuple):
    """A reward rate that the data allow, and how much of the law of an attempt's seconds they show."""

    low: float
    high: float
    identified: float


def kaplan_meier(
    reward: Array, seconds: Array, running: Array, *, limit_seconds: float, most_reward: float
) -> RateBounds:
    """The rate from attempts that ended and the seconds so far of those that run, by the Kaplan-Meier weights.

    An attempt that ended after d seconds stands for itself and for its part of those that were running at less. What
    outlasts every attempt that ended is not identified: low counts it as no reward in limit_seconds, high as
    most_reward in the seconds that it has run.
    """
    order = np.lexsort((reward, seconds))
    reward, seconds = reward[order], seconds[order]
    at_risk = seconds.size - np.arange(seconds.size) + (running[None, :] >= seconds[:, None]).sum(axis=1)
    left = np.cumprod(1 - 1 / at_risk)
    weight = np.append(1.0, left[:-1]) / at_risk
    tail = float(left[-1]) if left.size else 1.0
    earned, spent = float(weight @ reward), float(weight @ seconds)
    longer = running[running >= (seconds[-1] if seconds.size else 0.0)]
    if longer.size == 0 or tail <= 1e-12:
        return RateBounds(earned / spent, earned / spent, 1.0)
    low = earned / (spent + tail * limit_seconds)
    return RateBounds(low, (earned + tail * most_reward) / (spent + tail * float(longer.mean())), 1 - tail)


class Played(NamedTuple):
    """What a stream with a bound on age came to."""

    times: Array
    "When every update was done."
    ages: Ints
    "Age of the attempts of every update."
    busy: float
    "Share of the time of all slots that attempts used, until the last update."
    numbers: Ints


def play_stream(seconds: Array, chains: int, updates: int, *, age: int | None, order: Order) -> Played:
    """Event by event: a slot for every chain, batches as large as there are chains; learning takes no time."""
    stream, idle, now = Stream(chains, chains, age=age, order=order), list(range(chains)), 0.0
    heap: list[tuple[float, int]] = []
    chain_of: dict[int, int] = {}
    times: list[float] = []
    ages: list[list[int]] = []
    taken: list[tuple[int, ...]] = []
    while len(times) < updates:
        while idle and stream.may_start():
            chain = idle.pop()
            number = stream.start(chain)
            chain_of[number] = chain
            heapq.heappush(heap, (now + float(seconds[number]), number))
        now, number = heapq.heappop(heap)
        idle.append(chain_of.pop(number))
        stream.end(number, 0.0, float(seconds[number]))
        while len(times) < updates and (numbers := stream.batch()) is not None:
            ages.append([stream.age_of(one) for one in numbers])
            stream.advance()
            times.append(now)
            taken.append(numbers)
    used = seconds[: stream.started].sum() - sum(end - now for end, _ in heap)
    return Played(np.array(times), np.array(ages), float(used) / (chains * now), np.array(taken))
