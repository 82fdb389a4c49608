"""How wrong batches and rates are when chains do not wait, by the way of forming them, and what each order costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np

from rewardrate.attempt import Z_95
from rewardrate.checks import at_least
from rewardrate.config import AtLeast
from rewardrate.rates.stream import Order
from rewardrate.theory.streams import (
    Ints,
    Schedule,
    TwoKinds,
    by_finish,
    by_start,
    kaplan_meier,
    play_stream,
    schedule,
    without_stale,
)
from rewardrate.theory.tables import Array

UPDATES = 60
EARLY, LATE = slice(0, 3), slice(30, 60)
SLOW = (3.0, 10.0, 100.0)  # seconds of a slow attempt; a quick one takes 1
JITTER = 0.1  # sd of the log seconds, so that batches do not end all at once
LIMIT = 2.0  # the limit of an attempt over the seconds of a slow one
AGES: tuple[int | None, ...] = (0, 2, 4, 8, None)
SPREADS = (3.0, 10.0, 100.0)  # 95th over 5th percentile of lognormal seconds

STEP, START = "step: every update waits", "start order"
BLOCKS, ENDED = "finish order, rate from blocks in start order", "finish order, rate from ended attempts"
RUNNING = "finish order, running time counted too"
BOUND = "finish order, Kaplan-Meier lower bound"
STALE = {2: "older than 2 updates dropped", 8: "older than 8 updates dropped"}
FIRST = "first 4 of 5 to finish"
WAYS = (STEP, START, BLOCKS, ENDED, RUNNING, BOUND, *STALE.values(), FIRST)


@dataclass(frozen=True)
class StreamConfig:
    """Settings of `rewardrate theory streams`."""

    runs: Annotated[int, AtLeast(2)] = 200
    "Simulated runs of each row of the table of errors."
    cost_runs: Annotated[int, AtLeast(1)] = 5
    "Simulated runs of each row of the table of costs."
    seed: Annotated[int, AtLeast(0)] = 2026
    "Seed of the runs."
    chains: tuple[int, ...] = (16, 64, 128)
    "Numbers of chains. A batch has half as many attempts where errors are measured, as many where costs are."

    def __post_init__(self) -> None:
        for number in self.chains:
            at_least("chains", number, 4)


class MeanInterval(NamedTuple):
    """A mean over runs and its 95 % interval."""

    mean: float
    low: float
    high: float


class BiasRow(NamedTuple):
    """One way in one setting: slow share (0.5 is right) and rate over true rate, in updates 1-3 and 31-60."""

    slow: float
    chains: int
    way: str
    early_share: MeanInterval
    late_share: MeanInterval
    early_rate: MeanInterval
    late_rate: MeanInterval

    def to_json(self) -> dict[str, Any]:
        """A flat row: each interval as three columns."""
        row: dict[str, Any] = {"slow_seconds": self.slow, "chains": self.chains, "way": self.way}
        for name in ("early_share", "late_share", "early_rate", "late_rate"):
            row |= {
                f"{name}{end}": value for end, value in zip(("", "_low", "_high"), getattr(self, name), strict=True)
            }
        return row


class CostRow(NamedTuple):
    """What a bound on age costs: speed over `step` at equal attempts, busy slots, ages, time of the first update."""

    spread: float
    chains: int
    order: str
    age: int | None
    speed: float
    busy: float
    mean_age: float
    largest_age: int
    first_update: float
    "In mean seconds of an attempt."


Found = dict[str, tuple[Array, Array]]
"Way -> slow share and rate over true rate of every update."


def judge_streams(config: StreamConfig, progress: Callable[[int], None] = lambda done: None) -> list[BiasRow]:
    """All ways in all settings. Run i of a setting depends on the seed and i alone."""
    rows, done = [], 0
    for slow in SLOW:
        for chains in config.chains:
            kinds, runs = TwoKinds(slow, jitter=JITTER), []
            for number in range(config.runs):
                runs.append(one_run(kinds, chains, np.random.default_rng([config.seed, int(slow), chains, number])))
                done += 1
                progress(done)
            for way in WAYS:
                share, rate = (np.array([run[way][column] for run in runs]) for column in (0, 1))
                cells = [_interval(part[:, when].mean(axis=1)) for part in (share, rate) for when in (EARLY, LATE)]
                rows.append(BiasRow(slow, chains, way, *cells))
    return rows


def one_run(kinds: TwoKinds, chains: int, rng: np.random.Generator) -> Found:
    """Every way on the same chains; `step` and the first to finish draw their own attempts."""
    batch = chains // 2
    found = schedule(kinds, chains, 3 * UPDATES * batch, rng)
    ended = by_finish(found, batch, UPDATES)
    share = found.slow[ended].mean(axis=1)
    running, bound = np.array([_with_running(found, ended, update, kinds) for update in range(UPDATES)]).T
    result = {
        STEP: _fresh(kinds, batch, batch, rng),
        START: _taken(found, by_start(batch, UPDATES), kinds),
        BLOCKS: (share, _blocks(found, batch, found.end[ended].max(axis=1)) / kinds.rate),
        ENDED: (share, _totals(found, ended) / kinds.rate),
        RUNNING: (share, running / kinds.rate),
        BOUND: (share, bound / kinds.rate),
        FIRST: _fresh(kinds, batch, math.ceil(batch * 1.25), rng),
    }
    for keep, name in STALE.items():
        result[name] = _taken(found, without_stale(found, batch, UPDATES, keep), kinds)
    return result


def _taken(found: Schedule, numbers: Ints, kinds: TwoKinds) -> tuple[Array, Array]:
    return found.slow[numbers].mean(axis=1), _totals(found, numbers) / kinds.rate


def _totals(found: Schedule, numbers: Ints) -> Array:
    """Reward of all batches so far over their seconds."""
    rate: Array = found.reward[numbers].sum(axis=1).cumsum() / found.seconds[numbers].sum(axis=1).cumsum()
    return rate


def _blocks(found: Schedule, batch: int, times: Array) -> Array:
    """The rate from the blocks in start order that have ended by the time of an update; 0 before the first."""
    whole = by_start(batch, found.end.size // batch)
    done = np.maximum.accumulate(found.end[whole].max(axis=1))
    rates = np.append(0.0, _totals(found, whole))
    return np.asarray(rates[np.searchsorted(done, times, side="right")])


def _with_running(found: Schedule, ended: Ints, update: int, kinds: TwoKinds) -> tuple[float, float]:
    """Ended attempts over ended and running seconds; and the lower bound of the Kaplan-Meier estimate."""
    numbers = ended[: update + 1].ravel()
    now = found.end[numbers].max()
    going = (found.start <= now) & (found.end > now)
    so_far = now - found.start[going]
    reward, seconds = found.reward[numbers], found.seconds[numbers]
    limits = {"limit_seconds": LIMIT * kinds.slow, "most_reward": max(kinds.rewards)}
    bounds = kaplan_meier(reward, seconds, so_far, **limits)
    return float(reward.sum() / (seconds.sum() + so_far.sum())), bounds.low


def _fresh(kinds: TwoKinds, wanted: int, started: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Every update starts so many attempts together and takes the first `wanted` to end."""
    drawn = kinds.draw(rng, (UPDATES, started))
    first = np.argsort(drawn[2], axis=1, kind="stable")[:, :wanted]
    slow, reward, seconds = (np.take_along_axis(np.asarray(one, float), first, axis=1) for one in drawn)
    return slow.mean(axis=1), reward.sum(axis=1).cumsum() / seconds.sum(axis=1).cumsum() / kinds.rate


def _interval(values: Array) -> MeanInterval:
    mean, half = float(values.mean()), Z_95 * float(values.std(ddof=1)) / math.sqrt(values.size)
    return MeanInterval(mean, mean - half, mean + half)


def judge_costs(config: StreamConfig, progress: Callable[[int], None] = lambda done: None) -> list[CostRow]:
    """Both orders with bounds on age; slots as many as chains, lognormal seconds, learning takes no time."""
    rows, done = [], 0
    for spread in SPREADS:
        deviation = math.log(spread) / (2 * 1.645)
        for chains in config.chains:
            drawn = []
            for number in range(config.cost_runs):
                rng = np.random.default_rng([config.seed, int(spread), chains, number])
                size = (UPDATES * 12 + 40) * chains
                drawn.append(np.exp(deviation * rng.standard_normal(size) - deviation**2 / 2))
            waiting = [float(one[: UPDATES * chains].reshape(UPDATES, chains).max(axis=1).sum()) for one in drawn]
            for order in get_args(Order):
                for age in AGES:
                    rows.append(_cost(order, age, drawn=drawn, waiting=waiting, spread=spread, chains=chains))
                    done += config.cost_runs
                    progress(done)
    return rows


def _cost(
    order: Order, age: int | None, *, drawn: list[Array], waiting: list[float], spread: float, chains: int
) -> CostRow:
    played = [play_stream(seconds, chains, UPDATES, age=age, order=order) for seconds in drawn]
    return CostRow(
        spread=spread,
        chains=chains,
        order=order,
        age=age,
        speed=float(np.sum(waiting) / np.sum([one.times[-1] for one in played])),
        busy=float(np.mean([one.busy for one in played])),
        mean_age=float(np.mean([one.ages[UPDATES // 4 :].mean() for one in played])),
        largest_age=int(np.max([one.ages.max() for one in played])),
        first_update=float(np.mean([one.times[0] for one in played])),
    )
