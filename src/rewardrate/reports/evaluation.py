"""Budget curves: what the chains of a run have to show at every time budget, and one arm against the other.

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

from rewardrate.errors import InputError, did_you_mean
from rewardrate.rates.settings import real, whole

Array = NDArray[np.float64]
Value = Literal["latest", "best"]
Metric = Literal["reward", "score"]
COLUMNS = ("step", "row", "valid", "reward", "score", "seconds", "status")
"What a run is evaluated from; `RunLog.table(*COLUMNS)` returns them."


@dataclass(frozen=True)
class Chains:
    """The attempts of one run by chain (row of the batch): what each was worth and when it was finished."""

    values: Array
    "S x C. Reward or score of each attempt; NaN where it was not valid (or there was none)."
    finished: Array
    "S x C. Seconds the chain had used when the attempt was finished; never falls along S."
    metric: Metric = "reward"
    "reward: a chain without a valid attempt counts 0. score: it is left out of the mean."
    higher_is_better: bool = True

    @property
    def total(self) -> Array:
        """C: seconds each chain has used in all."""
        total: Array = self.finished[-1]
        return total

    def at(self, budgets: Sequence[float] | Array, value: Value = "latest") -> Array:
        """B x C: what each chain has to show at each budget.

        The value of its latest valid attempt finished by then ("latest"), or of its best one ("best"); NaN, or 0 for
        the metric reward, before the first.
        """
        if value not in get_args(Value):
            raise InputError(
                "value", value, "it must be one of latest, best", did_you_mean(str(value), get_args(Value))
            )
        budgets_B = np.asarray(budgets, dtype=np.float64)
        known_SC = _best(self) if value == "best" else _latest(self.values)
        before = np.full((1, known_SC.shape[1]), np.nan)
        known_SC = np.concatenate([before, known_SC])  # row 0: nothing is finished yet
        done_BC = np.stack([np.searchsorted(finish, budgets_B, side="right") for finish in self.finished.T], axis=1)
        value_BC: Array = np.take_along_axis(known_SC, done_BC, axis=0)
        return np.nan_to_num(value_BC, nan=0.0, posinf=np.inf, neginf=-np.inf) if self.metric == "reward" else value_BC


def chains(
    columns: Mapping[str, Sequence[Any]],
    *,
    metric: Metric = "reward",
    higher_is_better: bool = True,
    invalid_limit: float | None = None,
) -> Chains:
    """The chains of a run from its columns (`COLUMNS`; `score` and `status` only where they are needed).

    An attempt that is not valid uses its measured seconds, or `invalid_limit` if that is given (the time it was charged
    for). A failure of the sandbox uses none and shows nothing. A bad row raises InputError naming it.
    """
    if metric not in get_args(Metric):
        raise InputError(
            "metric", metric, "it must be one of reward, score", did_you_mean(str(metric), get_args(Metric))
        )
    step_N, row_N = (_whole_column(columns, name) for name in ("step", "row"))
    truth_N, seconds_N, value_N = (_column(columns, name) for name in ("valid", "seconds", metric))
    _same_length(columns, step_N.size, ("row", "valid", "seconds", metric))
    valid_N = _truth(truth_N)
    value_N = np.where(valid_N, value_N, np.nan)
    _check_rows(seconds_N, value_N, valid_N, metric)
    if invalid_limit is not None:
        limit = real("invalid_limit", invalid_limit, lambda number: number > 0, "be finite and positive")
        seconds_N = np.where(valid_N, seconds_N, limit)
    if "status" in columns:
        ours_N = np.asarray([status == "sandbox-failure" for status in columns["status"]], dtype=bool)
        seconds_N, value_N = np.where(ours_N, 0.0, seconds_N), np.where(ours_N, np.nan, value_N)
    steps, step_N = np.unique(step_N, return_inverse=True)
    rows, row_N = np.unique(row_N, return_inverse=True)
    place_N = step_N * rows.size + row_N
    if np.unique(place_N).size < place_N.size:
        twice = int(np.flatnonzero(np.bincount(place_N) > 1)[0])
        place = f"step {steps[twice // rows.size]}, row {rows[twice % rows.size]}"
        raise InputError("step, row", place, "there are two attempts of it", "give the attempts of one run")
    value_SC = np.full((steps.size, rows.size), np.nan)
    seconds_SC = np.zeros((steps.size, rows.size))
    value_SC[step_N, row_N], seconds_SC[step_N, row_N] = value_N, seconds_N
    return Chains(value_SC, np.cumsum(seconds_SC, axis=0), metric, higher_is_better)


def final_budget(runs: Sequence[Chains], share: float = 0.95) -> float:
    """The largest budget that at least `share` of the chains of these runs (one arm's repetitions, pooled) reach."""
    share = real("share", share, lambda number: 0 < number <= 1, "lie in (0, 1]")
    total_N = np.sort(np.concatenate([run.total for run in _some("runs", runs)]))[::-1]
    return float(total_N[math.ceil(share * total_N.size - 1e-9) - 1])


def budget_grid(final: float, *, every: float | None = None, points: int = 200) -> Array:
    """Budgets from 0 to `final`: `points` of them evenly, or one `every` so many seconds (and the last)."""
    final = real("final", final, lambda number: number > 0, "be finite and positive")
    if every is None:
        return np.linspace(0.0, final, whole("points", points, 2))
    every = real("every", every, lambda number: number > 0, "be finite and positive")
    if final / every > 1e6:
        raise InputError("every", every, f"that makes {final / every:.0f} budgets", "choose a larger one")
    return np.append(np.arange(0.0, final, every), final)


def curve(runs: Sequence[Chains], budgets: Sequence[float] | Array, value: Value = "latest") -> Array:
    """R x B: the mean across chains at each budget, for each repetition. NaN where no chain has anything to show."""
    return np.stack([_mean(run.at(budgets, value)) for run in _some("runs", runs)])


def band(
    runs: Sequence[Chains],
    budgets: Sequence[float] | Array,
    value: Value = "latest",
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
    pick_DR = rng.integers(len(runs), size=(whole("draws", draws, 1), len(runs)))
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
        warnings.simplefilter("ignore", RuntimeWarning)  # a budget at which nobody has anything to show: NaN
        low_B, high_B = np.nanquantile(mean_DB, (0.025, 0.975), axis=0)
    return low_B, high_B


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % bootstrap interval; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Comparison:
    """One task, two arms, the same budgets."""

    budgets: Array
    rpg_curves: Array
    "R x B: mean across chains of each repetition, at each budget."
    vanilla_curves: Array
    final: float
    "T, the last budget."
    rpg: Interval
    vanilla: Interval
    difference: Interval
    "rpg - vanilla at T, in the metric's own units."
    improvement: Interval
    "Relative improvement at T in percent; positive when rpg is better, whichever way the metric points."
    draws: Array
    "D bootstrap draws of the improvement, for `over_tasks`; NaN where it is not defined."


def compare(
    rpg: Sequence[Chains],
    vanilla: Sequence[Chains],
    *,
    value: Value = "latest",
    share: float = 0.95,
    final: float | None = None,
    every: float | None = None,
    points: int = 200,
    draws: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Both arms of one task at the same budgets; repetition i of one belongs to repetition i of the other.

    T is what `share` of the chains of the faster-finishing arm reach: the smaller of the arms' final budgets. `final`
    sets it instead. The bootstrap draws repetitions (the same for both arms), then chains inside each. With one
    repetition it knows the spread of the chains alone, not that of training again; and chains of one run share a policy
    and a buffer, so such an interval is too narrow.
    """
    if len(_some("rpg", rpg)) != len(_some("vanilla", vanilla)):
        raise InputError("rpg, vanilla", (len(rpg), len(vanilla)), "repetitions are paired: give as many of each")
    kinds = {(run.metric, run.higher_is_better) for run in (*rpg, *vanilla)}
    if len(kinds) > 1:
        raise InputError("rpg, vanilla", sorted(kinds), "all runs must be measured by the same metric")
    final = min(final_budget(rpg, share), final_budget(vanilla, share)) if final is None else final
    budgets = budget_grid(final, every=every, points=points)
    curves = [curve(runs, budgets, value) for runs in (rpg, vanilla)]
    rng = np.random.default_rng(seed)
    draws = whole("draws", draws, 1)
    pick_DR = rng.integers(len(rpg), size=(draws, len(rpg)))
    drawn = [_draw_means([run.at([final], value)[0] for run in runs], pick_DR, rng) for runs in (rpg, vanilla)]
    means = [float(_mean(curve_RB[:, -1:].T)[0]) for curve_RB in curves]
    better = 1.0 if kinds.pop()[1] else -1.0
    improvement_D = _improvement(drawn[0], drawn[1], better)
    return Comparison(
        budgets,
        curves[0],
        curves[1],
        final,
        _interval(means[0], drawn[0]),
        _interval(means[1], drawn[1]),
        _interval(means[0] - means[1], _finite(drawn[0]) - _finite(drawn[1])),
        _interval(float(_improvement(np.array(means[0]), np.array(means[1]), better)), improvement_D),
        improvement_D,
    )


def relative_improvement(rpg: float, vanilla: float, *, higher_is_better: bool = True) -> float | None:
    """Percent by which rpg is better than vanilla: 100 (rpg - vanilla) / |vanilla|, turned round if lower is better.

    None when vanilla is 0. Paper, table (tab:mlebench_meanatT).
    """
    percent = _improvement(np.array(float(rpg)), np.array(float(vanilla)), 1.0 if higher_is_better else -1.0)
    return _number(float(percent))


def trimmed_mean(values: Sequence[float], trim: int = 1) -> float | None:
    """The mean without the `trim` highest and lowest values; None when nothing is left. The paper drops one of each."""
    trim = whole("trim", trim, 0)
    kept = sorted(values)[trim : len(values) - trim]
    return math.fsum(kept) / len(kept) if kept else None


def over_tasks(tasks: Mapping[str, Comparison], *, trim: int = 1, draws: int = 2000, seed: int = 0) -> Interval:
    """The trimmed mean over tasks of the relative improvement, with its interval.

    A draw takes as many tasks as there are, with replacement, and one bootstrap draw of each: so the interval covers
    the choice of tasks and what each task's own interval covers. Tasks without a defined improvement are left out.
    """
    known = [task for task in tasks.values() if task.improvement.value is not None]
    trim, draws = whole("trim", trim, 0), whole("draws", draws, 1)
    value = trimmed_mean([task.improvement.value for task in known if task.improvement.value is not None], trim)
    if value is None:
        return Interval(None, None, None)
    rng = np.random.default_rng(seed)
    drawn_KD = np.stack([rng.choice(task.draws[np.isfinite(task.draws)], draws) for task in known])
    pick_KD = rng.integers(len(known), size=drawn_KD.shape)
    taken_KD = np.sort(np.take_along_axis(drawn_KD, pick_KD, axis=0), axis=0)
    return _interval(value, taken_KD[trim : len(known) - trim].mean(axis=0))


def _latest(value_SC: Array) -> Array:
    """Each chain's latest value that is not NaN, at every step."""
    last_SC = np.where(np.isnan(value_SC), -1, np.arange(value_SC.shape[0])[:, None])
    last_SC = np.maximum.accumulate(last_SC, axis=0)
    return np.where(last_SC < 0, np.nan, np.take_along_axis(value_SC, np.maximum(last_SC, 0), axis=0))


def _best(run: Chains) -> Array:
    best = np.fmax if run.higher_is_better or run.metric == "reward" else np.fmin
    best_SC: Array = best.accumulate(run.values, axis=0)
    return best_SC


def _mean(value_BC: Array) -> Array:
    """Mean over the last axis of what is not NaN; NaN where nothing is."""
    known = ~np.isnan(value_BC)
    count = known.sum(axis=-1)
    mean: Array = np.where(count > 0, np.where(known, value_BC, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan)
    return mean


def _draw_means(final: list[Array], pick_DR: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """D means over repetitions of means over chains, both drawn again; `final` has each repetition's chains at T."""
    mean_DR = np.empty(pick_DR.shape)
    for repetition, value_C in enumerate(final):
        here = pick_DR == repetition
        chosen = rng.integers(value_C.size, size=(int(here.sum()), value_C.size))
        mean_DR[here] = _mean(value_C[chosen])
    return _mean(mean_DR)


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


def _column(columns: Mapping[str, Sequence[Any]], name: str) -> Array:
    if name not in columns:
        raise InputError("columns", name, "there is no such column", f"give {', '.join(COLUMNS)}")
    values = list(columns[name])
    try:
        array = np.array(values, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        raise InputError(f"column {name}", values, "it must hold numbers") from None
    if not array.size:
        raise InputError(f"column {name}", "empty", "there are no attempts to evaluate")
    return array


def _truth(truth_N: Array) -> NDArray[np.bool_]:
    if not np.isin(truth_N, (0.0, 1.0)).all():
        row = int(np.flatnonzero(~np.isin(truth_N, (0.0, 1.0)))[0])
        raise InputError(f"valid[{row}]", float(truth_N[row]), "it must be true or false")
    return truth_N.astype(bool)


def _whole_column(columns: Mapping[str, Sequence[Any]], name: str) -> NDArray[np.int64]:
    array = _column(columns, name)
    if not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        raise InputError(f"column {name}", columns[name], "it must hold whole numbers")
    return array.astype(np.int64)


def _same_length(columns: Mapping[str, Sequence[Any]], size: int, names: tuple[str, ...]) -> None:
    for name in (*names, *(["status"] if "status" in columns else [])):
        if len(columns[name]) != size:
            raise InputError(f"column {name}", f"{len(columns[name])} rows", f"step has {size} rows")


def _check_rows(seconds_N: Array, value_N: Array, valid_N: NDArray[np.bool_], metric: str) -> None:
    bad = ~(np.isfinite(seconds_N) & (seconds_N >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"seconds[{row}]", float(seconds_N[row]), "seconds must be finite and not negative")
    odd = valid_N & ~np.isfinite(value_N)
    if metric == "reward" and odd.any():  # a score may be undefined (left out) or infinite (and so is the mean)
        row = int(np.flatnonzero(odd)[0])
        raise InputError(f"reward[{row}]", float(value_N[row]), "a reward must be a finite number")
