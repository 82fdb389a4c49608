"""Reference scripts of the tasks: score against seconds, as a table and a figure for each task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
        value = _gain(task, row)
        lines.append(
            f"| {row.script}{marks} | {row.score:.4f} | {report} | {row.seconds:.2f} | {row.cpu_seconds or 0:.2f} "
            f"| {value:.3f} | {value / _seconds(row):.3f} |"
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
    front = _front([(seconds, value) for seconds, value, _ in points])
    axis.plot(*zip(*front, strict=True), color=GREY, lw=1.2, drawstyle="steps-post", zorder=1)
    axis.scatter([p[0] for p in points], [p[1] for p in points], color=BLUE, s=28, zorder=2)
    axis.scatter(*points[0][:2], color=ORANGE, s=70, zorder=3, label="best score")
    axis.scatter(*best[:2], color=GREEN, s=70, marker="s", zorder=3, label="best gain per second")
    _plain_log_scale(axis.xaxis)
    axis.margins(x=0.1)
    axis.set(title=task.id, xlabel="seconds", ylabel="gain", ylim=(min(0.0, *(p[1] for p in points)) - 0.03, 1.1))
    axis.legend(loc=_free_corner(axis, [point[:2] for point in points]))
    if names:
        label(axis, {_name(row): (seconds, value) for seconds, value, row in points}, front)


LETTERS = 7.5
"Size of a name, in points."
DISTANCES = (6.0, 10.0, 15.0, 22.0, 31.0, 42.0, 55.0, 70.0, 87.0)
"How far from its point a name may begin, in points."
LEADING = 22.0
"From this distance on a line leads to it."
DIRECTIONS = tuple((math.cos(turn * math.pi / 8), math.sin(turn * math.pi / 8)) for turn in range(-2, 14))
"Around the point, beginning below on the right."


def label(axis: Any, points: Mapping[str, tuple[float, float]], line: Sequence[tuple[float, float]]) -> None:
    """Write a name beside each point so that none lies on another, on a point, on the legend or outside the axis.

    Each takes the nearest place that is free and not crossed by the line. The places are those of the finished figure:
    nothing may be drawn later that would move the axis.
    """
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Bbox

    axis.figure.draw_without_rendering()  # sizes and places are known after the layout only
    unit = axis.figure.dpi / 72
    spots = {name: axis.transData.transform(point) for name, point in points.items()}
    taken = [Bbox([spot - 5 * unit, spot + 5 * unit]) for spot in spots.values()]
    taken.append(axis.get_legend().get_window_extent())
    course = Outline(axis.transData.transform(_corners(line)))
    frame = axis.get_window_extent()
    for name, spot in sorted(spots.items(), key=lambda item: -item[1][0]):  # on the right there is least room
        probe = axis.text(0, 0, name, fontsize=LETTERS)
        size = np.array(probe.get_window_extent().size) * (1.12, 1.0)  # at other resolutions it is wider
        probe.remove()
        choices: list[tuple[float, int, Any]] = []
        for distance, (right, up) in itertools.product(DISTANCES, DIRECTIONS):
            tip = spot + distance * unit * np.array([right, up])
            corner = tip + size * np.array([right - 1, up - 1]) / 2
            box = Bbox([corner, corner + size])
            near, lead = box.padded(1.5 * unit), Outline([spot, tip])
            covers = near.count_overlaps(taken) + (not _inside(box, frame))
            crosses = sum(map(lead.intersects_bbox, taken)) - 1 if distance >= LEADING else 0  # its own point is one
            crossed = course.intersects_bbox(near, filled=False)
            choices.append((1000 * covers + 60 * crosses + 45 * crossed + distance, len(choices), box))
        _, place, box = min(choices, key=lambda choice: choice[:2])
        _write(axis, name, points[name], (box.p0 - spot) / unit, *divmod(place, len(DIRECTIONS)))
        taken.append(box)


def _write(axis: Any, name: str, point: tuple[float, float], offset: Any, distance: int, direction: int) -> None:
    """The name at its place, with a line to it where it is far."""
    right, up = DIRECTIONS[direction]
    end = ((1 - right) / 2, (1 - up) / 2)  # the part of the name that is nearest to the point
    line = {"arrowstyle": "-", "color": GREY, "lw": 0.5, "shrinkA": 0, "shrinkB": 3, "relpos": end}
    text = axis.annotate(
        name,
        point,
        tuple(offset),
        textcoords="offset points",
        va="bottom",
        fontsize=LETTERS,
        color="#374151",
        arrowprops=line if DISTANCES[distance] >= LEADING else None,
    )
    text.set_in_layout(False)  # else the layout would move what the places were chosen for


def _free_corner(axis: Any, points: Sequence[tuple[float, float]]) -> str:
    """Where a legend lies on no point; below rather than above, for good scripts stand above."""
    shares = axis.transAxes.inverted().transform(axis.transData.transform(points))
    for corner, where in (("lower left", (0, 0)), ("lower right", (1, 0)), ("upper left", (0, 1))):
        if not any(np.all(np.abs(share - where) < (0.5, 0.25)) for share in shares):
            return corner
    return "best"


def _inside(box: Any, frame: Any) -> bool:
    return bool(box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1)


def _corners(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The steps that are drawn through points: level first, then up."""
    corners = list(line[:1])
    for x, y in line[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return corners


def _plain_log_scale(axis: Any) -> None:
    """Powers of ten and their doubles and halves, written out: 0.5, 1, 2."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.axes.set_xscale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def timed(task: Task) -> list[Reference]:
    """The references that were measured, best score first."""
    return [row for row in task.references if row.seconds is not None]


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that no other beats in both time and gain, in order of time."""
    front: list[tuple[float, float]] = []
    for seconds, value in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or value > front[-1][1]:
            front.append((seconds, value))
    return front


def _name(row: Reference) -> str:
    return row.script.partition("_")[2].replace("_", " ") or row.script


def _gain(task: Task, row: Reference) -> float:
    return gain(row.score, task.baseline, task.best_reference, task.direction)


def _seconds(row: Reference) -> float:
    return max(0.1, row.seconds or 0.0)
