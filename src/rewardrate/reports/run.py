"""What a run folder holds, as numbers and figures: one run, or both arms side by side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.errors import InputError
from rewardrate.reports.evaluation import COLUMNS, Chains, Comparison, chains, compare
from rewardrate.reports.style import BLUE, GREY, ORANGE, pyplot
from rewardrate.runlog import AttemptRow, RunLog, StepRow

COLORS = {"rpg": BLUE, "vanilla": ORANGE}


@dataclass(frozen=True)
class Run:
    """One run, read once."""

    folder: Path
    about: Mapping[str, str]
    attempts: tuple[AttemptRow, ...]
    steps: tuple[StepRow, ...]
    chains: Chains

    @property
    def arm(self) -> str:
        """Which arm of the experiment: rpg or vanilla."""
        return self.about.get("arm", "rpg")

    @property
    def charged(self) -> tuple[AttemptRow, ...]:
        """Attempts that the policy answers for: all but failures of the sandbox."""
        return tuple(attempt for attempt in self.attempts if attempt.status != "sandbox-failure")

    @property
    def best(self) -> AttemptRow | None:
        """The attempt with the highest reward; of equals the quickest."""
        valid = [attempt for attempt in self.attempts if attempt.valid]
        return max(valid, key=lambda attempt: (attempt.reward, -attempt.seconds), default=None)


def read(folder: Path) -> Run:
    """A run from its folder; InputError if it holds none, or one without a finished step."""
    with RunLog.open(folder, read_only=True) as log, log.snapshot():
        steps, attempts, about = tuple(log.steps()), tuple(log.attempts()), log.about()
        if not steps:
            raise InputError("run", str(folder), "it has no finished step yet", "wait for the first one")
        return Run(Path(folder), about, attempts, steps, chains(log.table(*COLUMNS)))


def find(folder: Path) -> list[Run]:
    """The run in a folder, or those in the folders below it (rpg and vanilla)."""
    if RunLog.exists(folder):
        return [read(folder)]
    below = [path for path in sorted(Path(folder).glob("*")) if path.is_dir() and RunLog.exists(path)]
    if not below:
        raise InputError(
            "run", str(folder), "there is no run in it, nor in a folder below it", "see docs/run-folder.md"
        )
    return [read(path) for path in below]


def summary(folder: Path) -> dict[str, float]:
    """The numbers of one run that a terminal shows at its end."""
    run = read(folder)
    charged = run.charged
    valid = [attempt for attempt in charged if attempt.valid]
    return {
        "attempts": len(run.attempts),
        "valid share": len(valid) / max(1, len(charged)),
        "mean reward": float(np.mean([attempt.reward for attempt in valid])) if valid else 0.0,
        "best reward": max((attempt.reward for attempt in valid), default=0.0),
        "mean seconds": float(np.mean([attempt.seconds for attempt in charged])) if charged else 0.0,
        "rate": run.steps[-1].rate.rate,
        "script seconds": run.steps[-1].script_seconds,
        "steps": len(run.steps),
    }


def comparison(runs: Sequence[Run]) -> Comparison | None:
    """Both arms at the same budgets, repetitions paired by seed; None unless every seed has both.

    Runs of different tasks or clocks are refused: their seconds and rewards are not of one kind.
    """
    kinds = {(run.about.get("task"), run.about.get("clock")) for run in runs}
    if len(kinds) > 1:
        raise InputError("runs", sorted(map(str, kinds)), "they are of different tasks or clocks", "report each alone")
    arms = {arm: {run.about.get("seed", ""): run.chains for run in runs if run.arm == arm} for arm in COLORS}
    if not arms["rpg"] or set(arms["rpg"]) != set(arms["vanilla"]) or len(runs) != 2 * len(arms["rpg"]):
        return None
    return compare(*([arms[arm][seed] for seed in sorted(arms[arm])] for arm in ("rpg", "vanilla")))


def figures(runs: Sequence[Run]) -> dict[str, Any]:
    """Name -> matplotlib figure: budget curves, rate, seconds against reward, valid share."""
    plt = pyplot()
    made = {}
    for name, draw in (("budget", _budget), ("rate", _rate), ("attempts", _attempts), ("valid", _valid)):
        made[name], axis = plt.subplots(figsize=(6.0, 3.6), constrained_layout=True)
        draw(axis, runs)
    return made


def _budget(axis: Any, runs: Sequence[Run]) -> None:
    both = comparison(runs)
    if both is not None:
        for arm, curves in (("rpg", both.rpg_curves), ("vanilla", both.vanilla_curves)):
            axis.plot(both.budgets, np.nanmean(curves, axis=0), color=COLORS[arm], label=arm)
    else:
        for run in runs:
            grid = np.linspace(0, float(run.chains.total.max()), 200)
            axis.plot(grid, run.chains.at(grid).mean(axis=1), color=COLORS[run.arm], label=run.arm)
    axis.set(title="Mean reward across chains at a time budget", xlabel="script seconds per chain", ylabel="reward")
    axis.legend(loc="lower right")


def _rate(axis: Any, runs: Sequence[Run]) -> None:
    for run in runs:
        steps = [row.step for row in run.steps]
        low, high = [row.rate.low for row in run.steps], [row.rate.high for row in run.steps]
        axis.fill_between(steps, np.maximum(low, 0), high, color=COLORS[run.arm], alpha=0.15, lw=0)
        axis.plot(steps, [row.rate.rate for row in run.steps], color=COLORS[run.arm], label=run.arm)
    axis.set(title="Estimated reward rate", xlabel="step", ylabel="reward per second", ylim=(0, None))
    axis.legend(loc="lower right")


def _attempts(axis: Any, runs: Sequence[Run]) -> None:
    for run, marker in zip(runs, itertools.cycle("os^v"), strict=False):
        valid = [attempt for attempt in run.attempts if attempt.valid]
        if not valid:
            continue
        age = np.array([attempt.step for attempt in valid]) / max(attempt.step for attempt in valid)
        seconds, reward = [attempt.seconds for attempt in valid], [attempt.reward for attempt in valid]
        axis.scatter(
            seconds, reward, c=COLORS[run.arm], alpha=0.15 + 0.7 * age, s=16, marker=marker, lw=0, label=run.arm
        )
    axis.set_xscale("log")
    axis.set(title="Every valid script (later steps darker)", xlabel="seconds", ylabel="reward")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="lower right")


def _valid(axis: Any, runs: Sequence[Run]) -> None:
    for run in runs:
        steps = [row.step for row in run.steps]
        share, seconds = [], []
        for step in steps:
            rows = [attempt for attempt in run.charged if attempt.step == step]
            share.append(np.mean([attempt.valid for attempt in rows]) if rows else 0.0)
            seconds.append(np.mean([attempt.seconds for attempt in rows]) if rows else 0.0)
        axis.plot(steps, share, color=COLORS[run.arm], label=f"{run.arm}: valid share")
        axis.plot(steps, np.array(seconds) / (max(seconds) or 1.0), color=COLORS[run.arm], ls=":", lw=1.2)
    axis.plot([], [], color=GREY, ls=":", label="mean seconds (share of the longest)")
    axis.set(title="Valid scripts, and their seconds", xlabel="step", ylabel="share", ylim=(0, 1.05))
    axis.legend(loc="lower right")
