"""Reference scripts of the tasks: score against seconds, as a table and a figure for each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate.environments.mle.rewards import gain
from rewardrate.environments.mle.task import Reference, Task
from rewardrate.reports.style import BLUE, GREEN, GREY, ORANGE, pyplot, save


def score_table(task: Task) -> str:
    """Markdown: script, score on both splits, seconds, gain, gain per second; the best of each is marked."""
    rows = timed(task)
    best_rate = max(rows, key=lambda row: _gain(task, row) / _seconds(row), default=None)
    lines = [
        "| script | score (reward) | score (report) | seconds | CPU s | gain | gain per second |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        marks = (" **best score**" if row is rows[0] else "") + (" **best rate**" if row is best_rate else "")
        report = "-" if row.report is None else f"{row.report:.4f}"
        worth = _gain(task, row)
        lines.append(
            f"| {row.script}{marks} | {row.score:.4f} | {report} | {row.seconds:.2f} | {row.cpu_seconds or 0:.2f} "
            f"| {worth:.3f} | {worth / _seconds(row):.3f} |"
        )
    return "\n".join(lines)


def draw(task: Task, stem: Path) -> list[Path]:
    """Gain against seconds for every reference script, with the front of those that nothing beats in both."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 3.9), constrained_layout=True)
    plot(axis, task)
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def draw_all(tasks: Sequence[Task], stem: Path, columns: int = 3) -> list[Path]:
    """All tasks side by side."""
    plt = pyplot()
    high = -(-len(tasks) // columns)
    figure, axes = plt.subplots(
        high, columns, figsize=(4.6 * columns, 3.1 * high), constrained_layout=True, squeeze=False
    )
    for axis, task in zip(axes.flat, tasks, strict=False):
        plot(axis, task, names=False)
    for axis in axes.flat[len(tasks) :]:
        axis.set_visible(False)
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def plot(axis: Any, task: Task, *, names: bool = True) -> None:
    """One task's scripts on an axis."""
    rows = timed(task)
    points = [(_seconds(row), _gain(task, row), row) for row in rows]
    best = max(points, key=lambda point: point[1] / point[0])
    front = _front([(seconds, worth) for seconds, worth, _ in points])
    axis.plot(*zip(*front, strict=True), color=GREY, lw=1.2, drawstyle="steps-post", zorder=1)
    axis.scatter([p[0] for p in points], [p[1] for p in points], color=BLUE, s=28, zorder=2)
    axis.scatter(*points[0][:2], color=ORANGE, s=70, zorder=3, label="best score")
    axis.scatter(*best[:2], color=GREEN, s=70, marker="s", zorder=3, label="best gain per second")
    if names:
        for seconds, worth, row in points:
            label = row.script.partition("_")[2].replace("_", " ")
            axis.annotate(label, (seconds, worth), (5, -9), textcoords="offset points", fontsize=7, color="#374151")
    axis.set_xscale("log")
    axis.set(title=task.id, xlabel="seconds", ylabel="gain", ylim=(min(0.0, *(p[1] for p in points)) - 0.03, 1.08))
    axis.legend(loc="lower right")


def timed(task: Task) -> list[Reference]:
    """The references that were measured, best score first."""
    return [row for row in task.references if row.seconds is not None]


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other beats in both time and gain, in order of time."""
    front: list[tuple[float, float]] = []
    for seconds, worth in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or worth > front[-1][1]:
            front.append((seconds, worth))
    return front


def _gain(task: Task, row: Reference) -> float:
    return gain(row.score, task.baseline, task.best_reference, task.direction)


def _seconds(row: Reference) -> float:
    return max(0.1, row.seconds or 0.0)
