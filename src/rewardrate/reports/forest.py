"""The forest plot: differences of two arms task by task, with intervals, and what they come to together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rewardrate.reports.chart import plain
from rewardrate.reports.evaluation import Interval
from rewardrate.reports.style import BLUE, GREY, INK, pyplot
from rewardrate.reports.tables import interval

ROW, HEAD, WIDTH = 0.3, 1.3, 4.4  # inches of a row, of title and axis, of a panel


@dataclass(frozen=True)
class ForestRow:
    """One task: its interval, and the difference of each seed."""

    name: str
    difference: Interval
    seeds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Forest:
    """One panel."""

    title: str
    x: str
    rows: tuple[ForestRow, ...]
    pooled: Interval


def draw(panels: Sequence[Forest]) -> Any:
    """The panels side by side, rows aligned; the caller closes the figure."""
    plt = pyplot()
    high = HEAD + ROW * (1 + max(len(panel.rows) for panel in panels))
    size = (1.2 + WIDTH * len(panels), high)
    figure, axes = plt.subplots(1, len(panels), figsize=size, constrained_layout=True, squeeze=False, sharex=True)
    for place, (axis, panel) in enumerate(zip(axes[0], panels, strict=True)):
        _draw_on(axis, panel, names=place == 0)
    return figure


def _draw_on(axis: Any, panel: Forest, *, names: bool) -> None:
    count = len(panel.rows)
    axis.axvline(0.0, color=INK, lw=0.9, zorder=1)
    axis.axhline(0.5, color=GREY, lw=0.6, zorder=1)
    for place, row in enumerate(panel.rows):
        y = count - place
        axis.plot(row.seeds, [y + 0.24] * len(row.seeds), "o", color=GREY, ms=3.2, mew=0, alpha=0.8, zorder=2)
        _line(axis, row.difference, y, color=BLUE, lw=1.5)
        if row.difference.value is not None:
            axis.plot([row.difference.value], [y], "s", color=BLUE, ms=6, mew=0, zorder=4)
    _diamond(axis, panel.pooled)
    _rows(axis, panel, names)
    axis.set(title=plain(panel.title), xlabel=plain(panel.x), ylim=(-0.7, count + 0.7))
    axis.grid(axis="y", visible=False)
    axis.margins(x=0.08)


def _rows(axis: Any, panel: Forest, names: bool) -> None:
    """The names on the left of the first panel, the numbers on the right of each."""
    count = len(panel.rows)
    ticks = [*range(count, 0, -1), 0]
    labels = [*(plain(row.name) for row in panel.rows), "all tasks"]
    axis.set_yticks(ticks, labels if names else [""] * len(ticks))
    axis.tick_params(axis="y", length=0)
    right = axis.secondary_yaxis("right")
    numbers = [interval(one, sign=True) for one in (*(row.difference for row in panel.rows), panel.pooled)]
    right.set_yticks(ticks, numbers)
    right.tick_params(axis="y", length=0, labelsize=9)
    for side in (axis.spines["left"], right.spines["right"]):
        side.set_visible(False)
    for label in (axis.get_yticklabels()[-1], right.get_yticklabels()[-1]):
        label.set_fontweight("bold")


def _line(axis: Any, found: Interval, y: float, **style: Any) -> None:
    if found.low is not None and found.high is not None:
        axis.plot([found.low, found.high], [y, y], solid_capstyle="butt", zorder=3, **style)


def _diamond(axis: Any, found: Interval) -> None:
    """The pooled estimate: as wide as its interval."""
    if found.value is None:
        return
    low, high = (found.value if bound is None else bound for bound in (found.low, found.high))
    axis.fill([low, found.value, high, found.value], [0.0, 0.28, 0.0, -0.28], color=INK, lw=1.0, zorder=4)
