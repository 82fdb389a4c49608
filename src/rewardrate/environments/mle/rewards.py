"""Reward of a valid submission: gain (ours), raw or percentile (the paper's).

The raw metric must not be priced: copying the sample submission takes 0.1 s and scores AUC 0.5, a rate of 5 per second
against less than 1 for the best honest script. `gain` gives it nothing (docs/tasks.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from rewardrate.errors import InputError

Kind = Literal["gain", "raw", "percentile"]
Direction = Literal["maximize", "minimize"]


def better(score: float, than: float, direction: Direction) -> bool:
    """Whether a score is strictly better than another in the metric's own direction."""
    return score > than if direction == "maximize" else score < than


def gain(score: float, baseline: float, best: float, direction: Direction) -> float:
    """(score - baseline) / (best - baseline), floored at 0: 0 is the sample submission, 1 the best reference script.

    A script that beats every reference earns more than 1. Refused when best is not better than baseline.
    """
    if not better(best, baseline, direction):
        raise InputError("best reference", best, f"it does not beat the sample submission ({baseline})")
    return max(0.0, (score - baseline) / (best - baseline))


def percentile(score: float, leaderboard: Sequence[float], direction: Direction) -> float:
    """Share of the leaderboard that is worse, ties counted half (mid-rank).

        (1/N) * sum_i ( [l_i worse than score] + [l_i = score] / 2 )

    Paper, equation (mle:reward). Refused for an empty leaderboard.
    """
    entries = [entry for entry in leaderboard if not math.isnan(entry)]
    if not entries:
        raise InputError("leaderboard", "empty", "a percentile needs at least one score")
    worse = sum(better(score, entry, direction) for entry in entries)
    equal = sum(entry == score for entry in entries)
    return (worse + equal / 2) / len(entries)


def direction_of(leaderboard: Sequence[float]) -> Direction | None:
    """The direction that a leaderboard sorted best-first implies; None when its ends are equal."""
    if len(leaderboard) < 2 or leaderboard[0] == leaderboard[-1]:
        return None
    return "maximize" if leaderboard[0] > leaderboard[-1] else "minimize"
