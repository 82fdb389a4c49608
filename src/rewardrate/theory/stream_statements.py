"""Statements about chains that do not wait, on every possible course of a small learning run.

Two chains, two kinds of attempts, and a policy that each batch of one attempt changes. All courses are enumerated with
their probabilities, so expectations are exact; the schedule is that of `rates.Stream`.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rewardrate.rates.stream import Order, Stream
from rewardrate.theory.streams import play_stream

if TYPE_CHECKING:
    from rewardrate.theory.statements import Case

LEARNED = 3  # attempts that are learned from in an enumerated run: one an update
AGE = 2


class SmallLearner(NamedTuple):
    """Seconds and values of two kinds, and a policy that every attempt moves: its chance of kind 1."""

    seconds: tuple[float, float]
    value: tuple[float, float]
    logit: float
    pull: tuple[float, float]
    "What an attempt of each kind adds to the logit."

    def chance(self, logit: float) -> tuple[float, float]:
        """Of both kinds."""
        one = 1 / (1 + math.exp(-logit))
        return 1 - one, one

    def mean(self, chance: tuple[float, float]) -> float:
        """Of the value, under these chances of both kinds."""
        return chance[0] * self.value[0] + chance[1] * self.value[1]


class Course(NamedTuple):
    """One course of a run: its probability, and sums over the attempts that were learned from."""

    chance: float
    weighted: float
    "Importance ratio times value, less the mean value under the policy that is updated."
    plain: float
    "Value less its mean under the policy that wrote the attempt."
    unweighted: float
    "Value less its mean under the policy that is updated."
    drift: float
    "Total variation between the two policies."


def draw_learner(case: Case) -> SmallLearner:
    """Two entries of the instance's tables, and pulls strong enough to change the policy at every update."""
    reward, seconds, _ = case.tables
    places = case.rng.integers(reward.size, size=2)
    jitter = case.rng.uniform(0.9, 1.1, 2)  # equal seconds would make the order of ending a matter of rounding
    first, second = (float(value) for value in seconds.ravel()[places] * jitter)
    low, high = (float(value) for value in reward.ravel()[places])
    values = (low / case.unit, high / case.unit + 0.1)
    pulls = case.rng.uniform(-2, 2, 2)
    return SmallLearner((first, second), values, float(case.rng.normal()), (float(pulls[0]), float(pulls[1])))


def courses(learner: SmallLearner, order: Order) -> list[Course]:
    """Every course of LEARNED updates of one attempt with two chains, once."""
    found: list[Course] = []
    beginnings: list[tuple[int, ...]] = [()]
    while beginnings:
        given = beginnings.pop()
        course, kinds = _course(learner, order, given)
        found.append(course)
        beginnings += [(*kinds[:place], 1) for place in range(len(given), len(kinds))]
    return found


def _course(learner: SmallLearner, order: Order, given: tuple[int, ...]) -> tuple[Course, tuple[int, ...]]:
    """The run whose first attempts are of the given kinds and all others of kind 0; and the kinds of all."""
    stream, idle, now = Stream(2, 1, age=AGE, order=order), [0, 1], 0.0
    heap: list[tuple[float, int, int]] = []
    logit, chance, sums = learner.logit, 1.0, np.zeros(4)
    kinds: list[int] = []
    written: list[tuple[float, float]] = []
    while True:
        while idle and stream.may_start():
            chain = idle.pop(0)
            number = stream.start(chain)
            kinds.append(given[number] if number < len(given) else 0)
            written.append(learner.chance(logit))
            chance *= written[number][kinds[number]]
            heapq.heappush(heap, (now + learner.seconds[kinds[number]], number, chain))
        now, number, chain = heapq.heappop(heap)
        stream.end(number, 0.0, 1.0)
        idle.append(chain)
        while (batch := stream.batch()) is not None:
            kind, by = kinds[batch[0]], written[batch[0]]
            current, value = learner.chance(logit), learner.value[kind]
            mean, ratio = learner.mean(current), current[kind] / by[kind]
            sums += (ratio * value - mean, value - learner.mean(by), value - mean, abs(current[1] - by[1]))
            logit += learner.pull[kind]
            stream.advance()
            if stream.version == LEARNED:
                return Course(chance, *sums.tolist()), tuple(kinds)


def start_order(case: Case) -> float:
    """E[sum of ratio * f] = E[sum of E_pi[f]] with pi the policy that is updated, in start order, to 1e-9."""
    learner = draw_learner(case)
    found = courses(learner, "start")
    total, off = sum(one.chance for one in found), sum(one.chance * one.weighted for one in found)
    size = max(abs(value) for value in learner.value)
    return 1e-9 - max(abs(total - 1), abs(off) / size)


def no_ratio(case: Case) -> float:
    """|E[sum of f - E_pi[f]]| <= range of f times E[sum of TV], in start order, pi the policy that is updated."""
    return drift_slack(draw_learner(case))


def drift_slack(learner: SmallLearner) -> float:
    """What is left of that inequality, over the range of f."""
    found = courses(learner, "start")
    off = sum(one.chance * one.unweighted for one in found)
    drift = sum(one.chance * one.drift for one in found)
    spread = abs(learner.value[1] - learner.value[0])
    return drift - abs(off) / spread if spread > 1e-9 else drift


def finish_order(case: Case) -> float:
    """|E[sum of f - E_pi[f]]| <= (chains - 1) * range of f in finish order, with pi the policy that wrote each."""
    learner = draw_learner(case)
    off = sum(one.chance * one.plain for one in courses(learner, "finish"))
    spread = abs(learner.value[1] - learner.value[0])
    return 1 - abs(off) / spread if spread > 1e-9 else 1.0


def never_later(case: Case) -> float:
    """With a larger age no update comes later, for the same seconds by number of start."""
    chains, updates = int(case.rng.integers(1, 5)), 8
    table = case.tables[1].ravel()
    seconds = case.rng.choice(table, size=chains * updates * 3) * case.rng.uniform(0.5, 1.5, chains * updates * 3)
    age = int(case.rng.integers(0, 3))
    times = [play_stream(seconds, chains, updates, age=one, order="start").times for one in (age, age + 1)]
    return float(np.min((times[0] - times[1]) / times[0][-1]))
