"""Stable-Baselines3 with and without a price of time: the share of the exact optimal rate that each run reached."""

from __future__ import annotations

import csv
from pathlib import Path

from rewardrate.reports.style import BLUE, GREY, INK, ORANGE, pyplot, save

ARMS = {"rewardrate": ("reward - rate * seconds", BLUE, "o"), "plain": ("reward alone", ORANGE, "s")}
SPACING = 0.07
"Between the runs of one arm, in rows: runs of equal share would hide one another."


def shares(rows: Path) -> dict[str, dict[str, list[float]]]:
    """Task -> arm -> rate over the optimal rate of every run, from the `rows.csv` of benchmarks/timed_sb3.py."""
    found: dict[str, dict[str, list[float]]] = {}
    with rows.open(newline="") as lines:
        for row in csv.DictReader(lines):
            arms = found.setdefault(row["task"].partition("-")[0], {})
            arms.setdefault(row["arm"], []).append(float(row["rate"]) / float(row["optimum"]))
    return found


def draw_shares(rows: Path, stem: Path) -> list[Path]:
    """Write the figure: a row for each task and arm, a mark for each run, the optimum as a line at 100 %."""
    plt = pyplot()
    tasks = shares(rows)
    figure, axis = plt.subplots(figsize=(7.6, 2.9), constrained_layout=True)
    for row, arms in enumerate(tasks.values()):
        for arm, (label, color, marker) in ARMS.items():
            middle = row + (-0.2 if arm == "rewardrate" else 0.2)
            runs = sorted(arms[arm])
            heights = [middle + SPACING * (place - (len(runs) - 1) / 2) for place in range(len(runs))]
            percent = [100 * share for share in runs]
            axis.plot(percent, heights, marker, color=color, ms=5, alpha=0.85, label=label if row == 0 else None)
            text = f"{sum(percent) / len(percent):.1f} %"
            axis.annotate(text, (min(percent), middle), (-8, 0), textcoords="offset points", ha="right", va="center")
    axis.axvline(100, color=INK, lw=1, ls="--")
    axis.set_yticks(range(len(tasks)), list(tasks))
    axis.set(xlim=(30, 103), ylim=(len(tasks) - 0.4, -0.6), xlabel="reward per second, % of the exact optimum")
    axis.set_title("Stable-Baselines3 PPO, five runs per task and objective")
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.grid(visible=False, axis="y")
    for row in range(1, len(tasks)):
        axis.axhline(row - 0.5, color=GREY, lw=0.4)
    axis.legend(loc="lower left", title="trained on", alignment="left")
    paths = save(figure, stem)
    plt.close(figure)
    return paths
