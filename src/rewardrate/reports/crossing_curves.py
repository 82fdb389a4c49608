"""The budget curve of a race: the best crossing so far at every time budget. Paper, figure (fig:nanogpt:budget).

A run shows at a budget T the best crossing that any of its chains had by then, each chain having spent T seconds on its
scripts (`reports.speedrun`): the one with the lowest loss, or the one that took the fewest seconds. The line is the
mean over repetitions; the band a 95 % bootstrap interval that draws repetitions, then chains inside each. Seeds do not
count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rewardrate.reports.chart import Chart, Line
from rewardrate.reports.charts import colors
from rewardrate.reports.evaluation import budget_grid
from rewardrate.reports.run import Experiment, Run
from rewardrate.reports.speedrun import crossings, kept_seed, target_of, with_seeds
from rewardrate.reports.style import GREY

Array = NDArray[np.float64]
Quantity = Literal["loss", "seconds"]
SHARES = (0.25, 0.5, 0.75, 1.0)
"Of the final budget, for the table."


@dataclass(frozen=True)
class CrossingCurve:
    """One arm: mean over repetitions of the best crossing at each budget, and its band. NaN where it is not defined."""

    budgets: Array
    repetitions: Array
    "R x B."
    mean: Array
    low: Array
    high: Array


def by_chain(run: Run, budgets: Array, quantity: Quantity) -> Array:
    """B x C: the lowest loss, or the fewest seconds, of each chain's crossings by each budget; infinite before one."""
    chains = sorted({attempt.chain for attempt in run.attempts})
    best_BC = np.full((budgets.size, max(1, len(chains))), np.inf)
    for one in crossings(run.attempts, target_of(run) or 0.0):
        column = best_BC[:, chains.index(one.chain)]
        np.minimum(column, getattr(one, quantity), out=column, where=budgets >= one.spent)
    return best_BC


def curve(runs: Sequence[Run], budgets: Array, quantity: Quantity, *, draws: int = 500, seed: int = 0) -> CrossingCurve:
    """The best crossing of one arm at every budget.

    A run without a crossing counts as at the target (its margin is 0); its seconds are not known, nor is then the mean.
    """
    missing = (target_of(runs[0]) or 0.0) if quantity == "loss" else np.nan
    best_RBC = [by_chain(run, budgets, quantity) for run in runs]
    mean_RB = np.stack([_known(best_BC.min(axis=1), missing) for best_BC in best_RBC])
    rng = np.random.default_rng(seed)
    pick_DR = rng.integers(len(runs), size=(draws, len(runs)))
    total_DB = np.zeros((draws, budgets.size))
    for repetition, best_BC in enumerate(best_RBC):
        times = np.nonzero(pick_DR == repetition)[0]
        chosen_NC = rng.integers(best_BC.shape[1], size=(times.size, best_BC.shape[1]))
        for place, chains_C in zip(times, chosen_NC, strict=True):
            total_DB[place] += _known(best_BC[:, chains_C].min(axis=1), missing)
    drawn_DB, mean_B = total_DB / len(runs), mean_RB.mean(axis=0)
    low_B, high_B = np.full(budgets.size, np.nan), np.full(budgets.size, np.nan)
    here = np.isfinite(mean_B)  # where it is, some draws are: the one that takes every chain is likely enough
    for place in np.nonzero(here)[0]:
        known = drawn_DB[np.isfinite(drawn_DB[:, place]), place]
        if known.size:
            low_B[place], high_B[place] = np.quantile(known, (0.025, 0.975))
    return CrossingCurve(budgets, mean_RB, mean_B, low_B, high_B)


def _known(best_B: Array, missing: float) -> Array:
    return np.where(np.isfinite(best_B), best_B, missing)


def final(experiment: Experiment) -> float:
    """T, as everywhere on the page."""
    return max(0.1, experiment.final)


def charts(experiment: Experiment) -> list[Chart]:
    """The curves of a race, by loss and by seconds; none for a run that is no race or where nothing crossed."""
    target, budgets = target_of(experiment.runs[0]), budget_grid(final(experiment))
    if target is None or not any(crossings(run.attempts, target) for run in experiment.runs):
        return []
    words = (
        "Each run shows the best crossing that any of its chains had once it had spent so many seconds; the line is "
        "the mean over repetitions, the band its 95 % bootstrap interval over repetitions and chains. "
    )
    by_loss = [Line("target", GREY, budgets[[0, -1]], np.array([target, target]), dash="--"), *_root(experiment)]
    return [
        Chart(
            "race-loss", "Lowest loss of a crossing at a time budget",
            words + "A run without a crossing counts as at the target; the dot at 0 is the best seed that scripts were "
            "made from, which does not count.",
            x="script seconds per chain", y="validation loss (lower is better)",
            lines=(*by_loss, *_lines(experiment, budgets, "loss")), legend="lower left",
        ),
        Chart(
            "race-seconds", "Fastest crossing at a time budget",
            words + "It begins where every repetition has a crossing.",
            x="script seconds per chain", y="seconds to the target (lower is better)",
            lines=tuple(_lines(experiment, budgets, "seconds")), y_range=(0, None), legend="lower right",
        ),
    ]  # fmt: skip


def _lines(experiment: Experiment, budgets: Array, quantity: Quantity) -> list[Line]:
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        found = curve(experiment.arms[label], budgets, quantity)
        if len(found.repetitions) > 1:
            lines += [Line(label, color, budgets, one, faint=True) for one in found.repetitions]
        lines.append(Line(label, color, x=budgets, y=found.mean, low=found.low, high=found.high))
    return lines


def _root(experiment: Experiment) -> list[Line]:
    """The lowest loss among the seeds that scripts were made from, at time 0, as in the paper's second figure."""
    found = []
    for run in experiment.runs:
        records = [seed.record for name in with_seeds(run)[0] if (seed := kept_seed(run, name)) is not None]
        found += [record.loss for record in records if record.valid and record.loss is not None]
    return [Line("best seed", GREY, np.zeros(1), np.array([min(found)]), marker="o")] if found else []


HEAD = ("arm", "budget (s)", "lowest loss", "its 95 % interval", "margin", "fastest crossing (s)", "its 95 % interval")


def rows(experiment: Experiment) -> list[list[str]]:
    """The table of a race: both curves at a quarter, a half, three quarters and all of the final budget."""
    target = target_of(experiment.runs[0])
    if target is None:
        return []
    budgets, found = final(experiment) * np.array(SHARES), []
    for label, runs in experiment.arms.items():
        losses, seconds = curve(runs, budgets, "loss"), curve(runs, budgets, "seconds")
        for place, budget in enumerate(budgets):
            loss = losses.mean[place]
            by_loss = [f"{loss:.4f}", _interval(losses, place, 4), f"{target - loss:.4f}"]
            by_seconds = [_number(seconds.mean[place], 1), _interval(seconds, place, 1)]
            found.append([label, f"{budget:.0f}", *by_loss, *by_seconds])
    return found


def _interval(found: CrossingCurve, place: int, digits: int) -> str:
    low, high = found.low[place], found.high[place]
    return f"{low:.{digits}f} to {high:.{digits}f}" if np.isfinite(low) else "-"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def markdown(experiment: Experiment) -> str:
    """The table of a race as Markdown."""
    lines = [HEAD, ["---"] + ["---:"] * (len(HEAD) - 1), *rows(experiment)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines) + "\n"
