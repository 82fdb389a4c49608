"""Repeats of one script, and when they show that it reaches the target: mean below target at p < 0.01."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.referee import FIRST_NUMBER, Referee
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError


@dataclass(frozen=True)
class Claimed:
    """What several runs of one script show together."""

    verdicts: tuple[Verdict, ...]
    "Those that count: runs that failed on our side are left out."
    valid: int
    mean_loss: float | None
    mean_seconds: float | None
    deviation_loss: float | None
    "Sample standard deviation; None with fewer than two valid runs."
    deviation_seconds: float | None
    p_value: float | None
    "Probability of losses so low if the true mean were the target (one-sided t-test); None with fewer than two."
    crossed: bool
    "Whether every run was valid and the mean is below the target at the race's level."


def p_below(losses: Sequence[float], target: float) -> float:
    """One-sided p-value of "the mean is below the target": P(t_{n-1} <= (mean - target) / (s / sqrt n)).

    Equal losses are one run told several times (a script that does not heed RACE_SEED) and show nothing: 1. Raises
    InputError with fewer than two.
    """
    count = len(losses)
    if count < 2 or not all(math.isfinite(loss) for loss in losses):
        raise InputError("losses", list(losses), "there must be at least two, all finite")
    from scipy.stats import t

    mean, deviation = _moments(losses)
    if deviation == 0.0:
        return 1.0
    return float(t.cdf((mean - target) / (deviation / math.sqrt(count)), count - 1))


def together(race: Race, verdicts: Sequence[Verdict]) -> Claimed:
    """Several verdicts on one script as one. A single run crosses by itself: the paper repeats nothing."""
    counted = tuple(verdict for verdict in verdicts if verdict.charged)
    losses = [verdict.score for verdict in counted if verdict.valid and verdict.score is not None]
    seconds = [verdict.seconds for verdict in counted if verdict.valid]
    p_value = p_below(losses, race.target_loss) if len(losses) > 1 else None
    whole = bool(counted) and len(losses) == len(counted)
    crossed = whole and (counted[0].crossed if p_value is None else p_value < race.level)
    mean, spread = _moments(losses)
    mean_seconds, spread_seconds = _moments(seconds)
    several = len(losses) > 1
    return Claimed(
        verdicts=counted,
        valid=len(losses),
        mean_loss=mean if losses else None,
        mean_seconds=mean_seconds if seconds else None,
        deviation_loss=spread if several else None,
        deviation_seconds=spread_seconds if several else None,
        p_value=p_value,
        crossed=crossed,
    )


def repeated(referee: Referee, code: str, runs: int) -> Claimed:
    """Run one script so many times, each with another RACE_SEED, and say what the runs show."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise InputError("runs", runs, "it must be a whole number of at least 1")
    numbers = range(FIRST_NUMBER, FIRST_NUMBER + runs)
    return together(referee.race, referee.run([code] * runs, numbers=numbers))


def _moments(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
