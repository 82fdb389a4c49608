"""Budget curves: the value of a run's chains at every time budget, and one arm against the other.

Works on plain columns (`RunLog.table`, a data frame, a dict of lists), so any run log can be evaluated.
Shapes: S steps, C chains, B budgets, R repetitions, D bootstrap draws, K tasks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError, nearest
from rewardrate.reports.columns import COLUMNS, boolean_column, check_rows, column, integer_column, same_length
from rewardrate.runlog.comparison import Value

__all__ = [
    "COLUMNS", "Chains", "Comparison", "Interval", "Metric", "Paired", "Value", "band", "budget_grid", "chains",
    "compare", "curve", "efficiency", "equal_budget", "final_budget", "held_out", "over_tasks",
    "relative_improvement", "totals", "trimmed_mean",
]  # fmt: skip

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Metric = Literal["reward", "score"]
NEAR_END = np.linspace(0.8, 1.0, 21)
"Shares of T: a value at T is the mean over these budgets, which steadies it."


@dataclass(frozen=True)
class Chains:
    """The attempts of one run by chain, in the chain's own order: the value of each and when it was finished.

    Where all chains wait for each other, row s holds step s; where they do not, chains have unlike numbers of attempts.
    """

    values: Array
    "S x C. Reward or score of each attempt; NaN where it was not valid (or there was none)."
    finished: Array
    "S x C. Seconds the chain had used when the attempt was finished; never falls along S."
    metric: Metric = "reward"
    higher_is_better: bool = True
    charged: NDArray[np.bool_] | None = None
    "S x C. False where there was no attempt, or the sandbox failed; None: True everywhere."

    @property
    def total(self) -> Array:
        """C: seconds each chain has used in all."""
        total: Array = self.finished[-1]
        return total

    @property
    def attempted(self) -> NDArray[np.bool_]:
        """S x C. Where there was an attempt that counts, valid or not."""
        return np.ones(self.values.shape, dtype=bool) if self.charged is None else self.charged

    def at(self, budgets: Sequence[float] | Array, value: Value = "current") -> Array:
        """B x C: the value of each chain at each budget, from the attempts that it had finished by then.

        current: its latest attempt, 0 if that was invalid. latest-valid: its latest valid one. best-so-far: its best.
        A chain without any counts 0. A score is left out (NaN) where 0 would mislead: where lower is better, and
        where only valid attempts are asked for.
        """
        if value not in get_args(Value):
            rule = f"it must be one of {', '.join(get_args(Value))}"
            raise InputError("value", value, rule, nearest(str(value), get_args(Value)))
        zero = self.metric == "reward" or (value == "current" and self.higher_is_better)
        nothing = 0.0 if zero else np.nan
        if value == "current":
            known_SC = _carried(np.where(np.isnan(self.values), nothing, self.values), self.attempted)
        elif value == "latest-valid":
            known_SC = _carried(self.values, ~np.isnan(self.values))
        else:
            better = np.fmax if self.higher_is_better or self.metric == "reward" else np.fmin
            known_SC = better.accumulate(self.values, axis=0)
        known_SC = np.concatenate([np.full((1, known_SC.shape[1]), np.nan), known_SC])  # row 0: nothing is finished yet
        budgets_B = np.asarray(budgets, dtype=np.float64)
        done_BC = np.stack([np.searchsorted(finish, budgets_B, side="right") for finish in self.finished.T], axis=1)
        value_BC: Array = np.take_along_axis(known_SC, done_BC, axis=0)
        return np.where(np.isnan(value_BC), nothing, value_BC)

    def at_end(self, final: float, value: Value = "current") -> Array:
        """C: the value of each chain at T = `final`, the mean over budgets 0.8 T to T."""
        return _mean(self.at(final * NEAR_END, value).T)


def chains(
    columns: Mapping[str, Sequence[Any]],
    *,
    metric: Metric = "reward",
    higher_is_better: bool = True,
) -> Chains:
    """The chains of a run from its columns (`COLUMNS`; `score` and `status` only where they are needed).

    Without a column `chain` the chain is the row. Attempts of a chain follow each other by step, then row.
    An attempt that is not valid uses its measured seconds. A sandbox failure is not charged and has no value. A bad row
    raises InputError naming it.
    """
    if metric not in get_args(Metric):
        raise InputError("metric", metric, "it must be one of reward, score", nearest(str(metric), get_args(Metric)))
    step_N, row_N = (integer_column(columns, name) for name in ("step", "row"))
    flags_N, seconds_N, value_N = (column(columns, name) for name in ("valid", "seconds", metric))
    number_N = integer_column(columns, "chain") if "chain" in columns else row_N
    same_length(columns, step_N.size, ("row", "valid", "seconds", metric, *(["chain"] if "chain" in columns else [])))
    valid_N = boolean_column(flags_N)
    value_N = np.where(valid_N, value_N, np.nan)
    check_rows(seconds_N, value_N, valid_N, metric)
    excluded_N = np.zeros(step_N.size, dtype=bool)
    if "status" in columns:
        excluded_N = np.asarray([status == "sandbox-failure" for status in columns["status"]], dtype=bool)
        seconds_N, value_N = np.where(excluded_N, 0.0, seconds_N), np.where(excluded_N, np.nan, value_N)
    place_N, chain_N = places(step_N, row_N, number_N)
    shape = (int(place_N.max(initial=-1)) + 1, int(chain_N.max(initial=-1)) + 1)
    value_SC, seconds_SC, charged_SC = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape, dtype=bool)
    for table, column_N in ((value_SC, value_N), (seconds_SC, seconds_N), (charged_SC, ~excluded_N)):
        table[place_N, chain_N] = column_N
    return Chains(value_SC, np.cumsum(seconds_SC, axis=0), metric, higher_is_better, charged_SC)


def places(step_N: Integers, row_N: Integers, number_N: Integers) -> tuple[Integers, Integers]:
    """Where each attempt stands: its place in its chain, from 0, and the chain, from 0 in the order of its number."""
    chain_N = np.unique(number_N, return_inverse=True)[1]
    order_N = np.lexsort((row_N, step_N, chain_N))
    sorted_N = np.stack([step_N, row_N])[:, order_N]
    twice = np.flatnonzero((np.diff(sorted_N) == 0).all(axis=0))
    if twice.size:
        place = f"step {sorted_N[0, twice[0]]:g}, row {sorted_N[1, twice[0]]:g}"
        raise InputError("step, row", place, "there are two attempts of it", "give the attempts of one run")
    begins_N = np.flatnonzero(np.diff(chain_N[order_N], prepend=-1))
    lengths_N = np.diff(begins_N, append=chain_N.size)
    place_N = np.empty(chain_N.size, dtype=np.int64)
    place_N[order_N] = np.arange(chain_N.size) - np.repeat(begins_N, lengths_N)
    return place_N, chain_N


def equal_budget(runs: Sequence[Chains]) -> float:
    """The budget that all of these runs have used on average over their chains: the smallest of their means."""
    return min(float(run.total.mean()) for run in _some("runs", runs))


def final_budget(runs: Sequence[Chains], share: float = 0.95) -> float:
    """The paper's T: the largest budget that at least `share` of the chains of these runs reach.

    It is known only after the runs, and the quickest chains decide it; `compare(..., final=...)` takes it.
    """
    share = finite("share", share, lambda number: 0 < number <= 1, "lie in (0, 1]")
    total_N = np.sort(np.concatenate([run.total for run in _some("runs", runs)]))[::-1]
    return float(total_N[math.ceil(share * total_N.size - 1e-9) - 1])


def budget_grid(final: float, *, every: float | None = None, points: int = 200) -> Array:
    """Budgets from 0 to `final`: `points` of them evenly, or one `every` so many seconds (and the last)."""
    final = finite("final", final, lambda number: number > 0, "be finite and positive")
    if every is None:
        return np.linspace(0.0, final, at_least("points", points, 2))
    every = finite("every", every, lambda number: number > 0, "be finite and positive")
    if final / every > 1e6:
        raise InputError("every", every, f"that makes {final / every:.0f} budgets", "choose a larger one")
    return np.append(np.arange(0.0, final, every), final)


def curve(runs: Sequence[Chains], budgets: Sequence[float] | Array, value: Value = "current") -> Array:
    """R x B: the mean across chains at each budget, for each repetition. NaN where no chain has anything to show."""
    return np.stack([_mean(run.at(budgets, value)) for run in _some("runs", runs)])


def band(
    runs: Sequence[Chains],
    budgets: Sequence[float] | Array,
    value: Value = "current",
    *,
    draws: int = 500,
    seed: int = 0,
) -> tuple[Array, Array]:
    """B and B: the pointwise 95 % bootstrap band of the mean over repetitions of the curve.

    A draw takes repetitions, then chains inside each, with replacement, as in `compare`. NaN where nothing is known, or
    where a score is infinite (and so is the mean).
    """
    value_RBC = [run.at(budgets, value) for run in _some("runs", runs)]
    rng = np.random.default_rng(seed)
    pick_DR = rng.integers(len(runs), size=(at_least("draws", draws, 1), len(runs)))
    total_DB = np.zeros((draws, value_RBC[0].shape[0]))
    count_DB = np.zeros_like(total_DB)
    endless_B = np.any([np.isinf(value_BC).any(axis=1) for value_BC in value_RBC], axis=0)
    for repetition, value_BC in enumerate(value_RBC):
        known_BC = np.isfinite(value_BC)
        times_D, chains_C = np.nonzero(pick_DR == repetition)[0], value_BC.shape[1]
        weight_NC = rng.multinomial(chains_C, np.full(chains_C, 1 / chains_C), size=times_D.size).astype(np.float64)
        sum_NB = weight_NC @ np.where(known_BC, value_BC, 0.0).T
        known_NB = weight_NC @ known_BC.T.astype(np.float64)
        np.add.at(total_DB, times_D, sum_NB / np.maximum(known_NB, 1.0))
        np.add.at(count_DB, times_D, known_NB > 0)
    mean_DB = np.where((count_DB > 0) & ~endless_B, total_DB / np.maximum(count_DB, 1), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a budget before every chain's first value: NaN
        low_B, high_B = np.nanquantile(mean_DB, (0.025, 0.975), axis=0)
    return low_B, high_B


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % bootstrap interval; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


@dataclass(frozen=True)
class Paired:
    """One quantity of both arms."""

    rpg: Interval
    "The arm that pays for its time, at whatever price."
    vanilla: Interval
    difference: Interval
    "rpg - vanilla, in the quantity's own units."


@dataclass(frozen=True)
class Comparison(Paired):
    """One task, two arms, the same budgets: what the chains have to show at T."""

    rpg_ends: Array
    "R: what each repetition has to show at T, the mean over budgets 0.8 T to T."
    vanilla_ends: Array
    final: float
    "T: script seconds per chain."
    improvement: Interval
    "Relative improvement at T in percent; positive when rpg is better, whichever way the metric points."
    draws: Array
    "D bootstrap draws of the improvement, for `over_tasks`; NaN where it is not defined."
    higher_is_better: bool = True

    @property
    def advantage(self) -> Interval:
        """The difference, turned round where lower is better: like the improvement, positive when rpg is better."""
        found = self.difference
        if self.higher_is_better or found.value is None:
            return found
        low, high = (None if end is None else 0.0 - end for end in (found.high, found.low))
        return Interval(0.0 - found.value, low, high)


def compare(
    rpg: Sequence[Chains],
    vanilla: Sequence[Chains],
    *,
    value: Value = "current",
    final: float | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Both arms of one task at the same budget; repetition i of one belongs to repetition i of the other.

    `final` is T; without it, what all runs have used on average over their chains (`equal_budget`). The value at T is
    the mean over budgets 0.8 T to T. The bootstrap draws repetitions (the same for both arms), then chains inside
    each. With one repetition the variation between training runs is not included; and chains of one run share a policy
    and a buffer, so such an interval is too narrow.
    """
    up = _check_pairs(rpg, vanilla)
    final = equal_budget([*rpg, *vanilla]) if final is None else final
    ends = [[run.at_end(final, value) for run in runs] for runs in (rpg, vanilla)]
    parts = [[(np.where(np.isnan(end), 0.0, end), 1.0 - np.isnan(end)) for end in arm] for arm in ends]
    means, drawn = _bootstrap(parts, draws, seed)
    better = 1.0 if up else -1.0
    improvement_D = _improvement(drawn[0], drawn[1], better)
    percent = float(_improvement(np.array(means[0]), np.array(means[1]), better))
    paired = _paired(means, drawn)
    return Comparison(
        rpg=paired.rpg,
        vanilla=paired.vanilla,
        difference=paired.difference,
        rpg_ends=_mean(np.stack(ends[0])),
        vanilla_ends=_mean(np.stack(ends[1])),
        final=final,
        improvement=_interval(percent, improvement_D),
        draws=improvement_D,
        higher_is_better=up,
    )


def efficiency(
    rpg: Sequence[Chains], vanilla: Sequence[Chains], final: float, *, draws: int = 2000, seed: int = 0
) -> dict[str, Paired]:
    """What the time of both arms brought, each quantity a ratio of totals of a run, the mean over repetitions.

        reward_per_second    rewards of valid attempts over the seconds of all attempts
        cumulative_reward    rewards of the attempts finished by T, per chain
        reward_per_attempt   rewards of valid attempts over all attempts (an invalid one counts 0)
        seconds_per_attempt  seconds of all attempts over all attempts
        valid_share          valid attempts over all attempts

    Runs must be measured by reward. The bootstrap is that of `compare`.
    """
    _check_pairs(rpg, vanilla)
    if rpg[0].metric != "reward":
        raise InputError("rpg, vanilla", rpg[0].metric, "reward per second needs runs measured by reward")
    found = [[totals(run, final) for run in runs] for runs in (rpg, vanilla)]
    return {name: _paired(*_bootstrap([[run[name] for run in arm] for arm in found], draws, seed)) for name in TOTALS}


def held_out(rewards: Sequence[tuple[float | None, float | None]], *, draws: int = 2000, seed: int = 0) -> Paired:
    """Rewards of the final scripts on data that chose none of them, over (rpg, vanilla) pairs that both have one.

    With fewer than two pairs there is no interval.
    """
    known = np.array([pair for pair in rewards if None not in pair], dtype=np.float64).reshape(-1, 2)
    if len(known) < 2:
        one, other = known[0] if len(known) else (np.nan, np.nan)
        return Paired(*(Interval(_number(value), None, None) for value in (one, other, one - other)))
    parts = [[(np.array([reward]), np.ones(1)) for reward in arm] for arm in known.T]
    return _paired(*_bootstrap(parts, draws, seed))


TOTALS = ("reward_per_second", "cumulative_reward", "reward_per_attempt", "seconds_per_attempt", "valid_share")


def totals(run: Chains, final: float) -> dict[str, tuple[Array, Array]]:
    """Name of each quantity -> C and C: its numerator and denominator, chain by chain."""
    reward_SC = np.nan_to_num(run.values, nan=0.0)
    reward_C, seconds_C = reward_SC.sum(axis=0), run.total
    attempts_C = run.attempted.sum(axis=0).astype(np.float64)
    by_then_C = np.where(run.finished <= final, reward_SC, 0.0).sum(axis=0)
    valid_C = (~np.isnan(run.values)).sum(axis=0).astype(np.float64)
    return {
        "reward_per_second": (reward_C, seconds_C),
        "cumulative_reward": (by_then_C, np.ones_like(by_then_C)),
        "reward_per_attempt": (reward_C, attempts_C),
        "seconds_per_attempt": (seconds_C, attempts_C),
        "valid_share": (valid_C, attempts_C),
    }


def relative_improvement(rpg: float, vanilla: float, *, higher_is_better: bool = True) -> float | None:
    """Percent by which rpg is better than vanilla: 100 (rpg - vanilla) / |vanilla|, turned round if lower is better.

    None when vanilla is 0. Paper, table (tab:mlebench_meanatT).
    """
    percent = _improvement(np.array(float(rpg)), np.array(float(vanilla)), 1.0 if higher_is_better else -1.0)
    return _number(float(percent))


def trimmed_mean(values: Sequence[float], trim: int = 1) -> float | None:
    """The mean without the `trim` highest and lowest values; None when nothing is left. The paper drops one of each."""
    trim = at_least("trim", trim, 0)
    kept = sorted(values)[trim : len(values) - trim]
    return math.fsum(kept) / len(kept) if kept else None


def over_tasks(tasks: Mapping[str, Comparison], *, trim: int = 1, draws: int = 2000, seed: int = 0) -> Interval:
    """The trimmed mean over tasks of the relative improvement, with its interval.

    A draw takes as many tasks as there are, with replacement, and one bootstrap draw of each: so the interval covers
    the choice of tasks and what each task's own interval covers. Tasks without a defined improvement are left out.
    """
    known = [task for task in tasks.values() if task.improvement.value is not None]
    trim, draws = at_least("trim", trim, 0), at_least("draws", draws, 1)
    value = trimmed_mean([task.improvement.value for task in known if task.improvement.value is not None], trim)
    if value is None:
        return Interval(None, None, None)
    rng = np.random.default_rng(seed)
    drawn_KD = np.stack([rng.choice(task.draws[np.isfinite(task.draws)], draws) for task in known])
    pick_KD = rng.integers(len(known), size=drawn_KD.shape)
    taken_KD = np.sort(np.take_along_axis(drawn_KD, pick_KD, axis=0), axis=0)
    return _interval(value, taken_KD[trim : len(known) - trim].mean(axis=0))


def _carried(value_SC: Array, known_SC: NDArray[np.bool_]) -> Array:
    """At every step the value of each chain's latest known place; NaN before the first."""
    last_SC = np.maximum.accumulate(np.where(known_SC, np.arange(value_SC.shape[0])[:, None], -1), axis=0)
    return np.where(last_SC < 0, np.nan, np.take_along_axis(value_SC, np.maximum(last_SC, 0), axis=0))


def _mean(value_BC: Array) -> Array:
    """Mean over the last axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(value_BC)
    count = known.sum(axis=-1)
    mean: Array = np.where(count > 0, np.where(known, value_BC, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan)
    return mean


def _check_pairs(rpg: Sequence[Chains], vanilla: Sequence[Chains]) -> bool:
    """Refuse runs that cannot be paired; whether a higher value is better."""
    if len(_some("rpg", rpg)) != len(_some("vanilla", vanilla)):
        raise InputError("rpg, vanilla", (len(rpg), len(vanilla)), "repetitions are paired: give as many of each")
    kinds = {(run.metric, run.higher_is_better) for run in (*rpg, *vanilla)}
    if len(kinds) > 1:
        raise InputError("rpg, vanilla", sorted(kinds), "all runs must be measured by the same metric")
    return kinds.pop()[1]


Parts = Sequence[tuple[Array, Array]]


def _bootstrap(arms: Sequence[Parts], draws: int, seed: int) -> tuple[list[float], list[Array]]:
    """For each arm the mean over repetitions of sum(numerator) / sum(denominator) over chains, and D draws of it.

    `arms` holds (C, C) numerators and denominators of each repetition. A draw takes repetitions, the same for all
    arms because they are paired, then chains inside each.
    """
    rng = np.random.default_rng(seed)
    pick_DR = rng.integers(len(arms[0]), size=(at_least("draws", draws, 1), len(arms[0])))
    mean_AR = np.array([[_ratio(top.sum(), bottom.sum()) for top, bottom in parts] for parts in arms])
    drawn_ADR = np.empty((len(arms), *pick_DR.shape))
    for arm, parts in enumerate(arms):
        for repetition, (top_C, bottom_C) in enumerate(parts):
            here = pick_DR == repetition
            chosen = rng.integers(top_C.size, size=(int(here.sum()), top_C.size))
            drawn_ADR[arm][here] = _ratio(top_C[chosen].sum(axis=1), bottom_C[chosen].sum(axis=1))
    if len(arms[0]) == 1 and all(parts[0][0].size == 1 for parts in arms):
        drawn_ADR[:] = np.nan  # one run of one chain: there is nothing to draw, and so no interval
    # A repetition in which one arm has nothing to show is no pair: it is left out of both.
    mean_AR = np.where(np.isnan(mean_AR).any(axis=0), np.nan, mean_AR)
    drawn_ADR = np.where(np.isnan(drawn_ADR).any(axis=0), np.nan, drawn_ADR)
    return [float(mean) for mean in _mean(mean_AR)], list(_mean(drawn_ADR))


def _ratio(top: Any, bottom: Any) -> Any:
    """Top / bottom; NaN where the bottom is 0."""
    known = np.asarray(bottom) > 0
    return np.where(known, top / np.where(known, bottom, 1.0), np.nan)


def _paired(means: Sequence[float], drawn: Sequence[Array]) -> Paired:
    one, other = (_interval(mean, draws_D) for mean, draws_D in zip(means, drawn, strict=True))
    return Paired(one, other, _interval(means[0] - means[1], _finite(drawn[0]) - _finite(drawn[1])))


def _improvement(rpg: Array, vanilla: Array, better: float) -> Array:
    defined = (vanilla != 0) & np.isfinite(vanilla)
    share = (rpg - np.where(defined, vanilla, 0.0)) / np.where(defined, np.abs(vanilla), 1.0)
    percent: Array = np.where(defined, better * 100.0 * share, np.nan)
    return percent


def _interval(value: float, drawn_D: Array) -> Interval:
    known = drawn_D[np.isfinite(drawn_D)]
    if not math.isfinite(value) or not known.size:
        return Interval(_number(value), None, None)
    low, high = np.quantile(known, (0.025, 0.975))
    return Interval(value, float(low), float(high))


def _finite(drawn_D: Array) -> Array:
    return np.where(np.isfinite(drawn_D), drawn_D, np.nan)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _some(field: str, runs: Sequence[Chains]) -> Sequence[Chains]:
    if not len(runs):
        raise InputError(field, "none", "at least one run is needed")
    return runs
