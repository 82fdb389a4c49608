"""A chart as data, drawn by matplotlib: for a file, for a grid of small ones, and for the page with its cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.reports.style import AGES, GREEN, GREY, NAMES, pyplot, save
from rewardrate.reports.svg import inline

Array = NDArray[np.float64]
SIZE, SMALL = (5.4, 3.4), (3.7, 2.5)  # inches: text stays readable when a phone shows the chart 340 pixels wide
ONE_STEP = np.array([0.0, 1.0, 2.0])
POINTS = 20_000  # more are thinned out: they would overlap


@dataclass(frozen=True)
class Line:
    """One curve, with a band where `low` and `high` are given. NaN is a gap."""

    label: str
    color: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    faint: bool = False
    "One repetition behind its mean: no label, no cursor."
    dash: str = "-"
    marker: str = ""


@dataclass(frozen=True)
class Area:
    """One layer of a stack."""

    label: str
    color: str
    y: Array


@dataclass(frozen=True)
class Points:
    """Attempts as dots, coloured by step."""

    x: Array
    y: Array
    step: Array
    front: tuple[tuple[float, float], ...] = ()
    "The Pareto front, in order of x."
    runs: tuple[int, ...] = ()
    "Which runs of the page they come from, so that a click finds the attempt."
    metric: str = "reward"


@dataclass(frozen=True)
class Chart:
    """What to draw. `name` is its id and the stem of its files."""

    name: str
    title: str
    caption: str
    "How to read it, in a sentence or two."
    x: str
    y: str
    lines: tuple[Line, ...] = ()
    areas: tuple[Area, ...] = ()
    area_x: Array = field(default_factory=lambda: np.empty(0))
    points: Points | None = None
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float | None, float | None] = (None, None)
    small: bool = False
    legend: str = "best"


def draw(chart: Chart, *, light: bool = False) -> Any:
    """The chart as a matplotlib figure; the caller closes it. `light`: dots as one path, which a browser draws fast."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=SMALL if chart.small else SIZE, constrained_layout=True)
    draw_on(axis, chart, light=light)
    return figure


def draw_grid(charts: Sequence[Chart], columns: int = 4) -> Any:
    """Several charts in one figure, for a file."""
    plt = pyplot()
    columns = min(columns, len(charts))
    high = -(-len(charts) // columns)
    size = (SMALL[0] * columns, SMALL[1] * high)
    figure, axes = plt.subplots(high, columns, figsize=size, constrained_layout=True, squeeze=False)
    for axis, chart in zip(axes.flat, charts, strict=False):
        draw_on(axis, chart)
    for axis in axes.flat[len(charts) :]:
        axis.set_visible(False)
    return figure


def draw_on(axis: Any, chart: Chart, *, light: bool = False) -> None:
    """The chart on an axis."""
    from matplotlib.ticker import FixedLocator

    for line in chart.lines:
        if line.low is not None and line.high is not None:
            axis.fill_between(line.x, line.low, line.high, color=line.color, alpha=0.16, lw=0)
        style: dict[str, Any] = {"lw": 0.8, "alpha": 0.45}
        if not line.faint:
            style = {"lw": 1.9, "label": plain(line.label)}
        marker = line.marker or ("o" if np.isfinite(line.y).sum() == 1 else "")  # one point is no line
        axis.plot(line.x, line.y, ls=line.dash, marker=marker, ms=5, color=line.color, **style)
    if chart.areas:
        layers = [np.pad(area.y, 1, mode="edge") for area in chart.areas]  # so that the outer bars have their width
        names = [plain(area.label) for area in chart.areas]
        shades = [area.color for area in chart.areas]
        steps = np.pad(chart.area_x, 1, mode="reflect", reflect_type="odd") if chart.area_x.size > 1 else ONE_STEP
        axis.stackplot(steps, *layers, labels=names, colors=shades, lw=0, step="mid")
    if chart.points is not None:
        _draw_points(axis, chart.points, light)
    if chart.log_x:
        axis.set_xscale("log")
        _plain_ticks(axis.xaxis)
    if chart.log_y:
        axis.set_yscale("log")
    axis.set(title=plain(chart.title), xlabel=plain(chart.x), ylabel=plain(chart.y))
    _limits(axis, chart)
    if chart.x == "step" and not isinstance(axis.xaxis.get_major_locator(), FixedLocator):
        axis.xaxis.get_major_locator().set_params(integer=True)
    if axis.get_legend_handles_labels()[0]:
        place: dict[str, Any] = {"loc": chart.legend}
        if chart.legend == "outside":
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "reverse": True}
        elif chart.legend == "below":
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": 3, "columnspacing": 1.2}
        axis.legend(**place, fontsize=7.5 if chart.small else 9)


def plain(text: str, limit: int = 60) -> str:
    """Text from outside as plain text: no formulas, no control characters, bounded length."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return (text if len(text) <= limit else text[: limit - 3] + "...").replace("$", r"\$").lstrip("_")


def _limits(axis: Any, chart: Chart) -> None:
    low, high = chart.y_range
    if low == 0 and high is None:  # half a dot above the highest point
        high = 1.05 * axis.dataLim.y1 if 0 < axis.dataLim.y1 < math.inf else None
    if chart.areas:
        axis.set_xlim(chart.area_x[0] - 0.5, chart.area_x[-1] + 0.5)
        if chart.area_x.size == 1:
            axis.set_xticks(chart.area_x)
    elif chart.x == "step" and chart.lines and all(line.x.size == 1 for line in chart.lines):
        axis.set_xlim(chart.lines[0].x[0] - 0.5, chart.lines[0].x[0] + 0.5)
        axis.set_xticks(chart.lines[0].x)
    if low is None and high is None and not chart.log_y:
        low, high = _wide_enough(*axis.get_ylim())
    if low is not None and high is None and axis.get_ylim()[1] <= low:
        high = low + 1.0
    axis.set_ylim(low, high)


def _wide_enough(low: float, high: float) -> tuple[float, float]:
    """Limits of an axis that is no narrower than a tenth of its values: rounding must not look like movement."""
    middle = (low + high) / 2
    least = 0.1 * abs(middle) or 1.0
    return (low, high) if high - low >= least else (middle - least / 2, middle + least / 2)


def _plain_ticks(axis: Any) -> None:
    """0.5, 1, 2 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_points(axis: Any, points: Points, light: bool) -> None:
    """Dots in eight colours by step; later ones on top."""
    last = max(2.0, float(points.step.max(initial=1.0)))
    age = np.floor((points.step - 1) / (last - 1) * (len(AGES) - 1e-9)).astype(int)
    size, alpha = (4.5, 0.85) if points.x.size < 2000 else (3.0, 0.55)
    for place, color in enumerate(AGES):
        here = age == place
        if not here.any():
            continue
        x, y = points.x[here], points.y[here]
        if light:
            _one_path(axis, x, y, color=color, size=size, alpha=alpha)
        else:
            axis.plot(x, y, "o", color=color, ms=size, mew=0, alpha=alpha, rasterized=x.size > 500)
        first, final = int(points.step[here].min()), int(points.step[here].max())
        if place in (age.min(), age.max()):
            label = f"step {first}" if first == final else f"steps {first} to {final}"
            axis.plot([], [], "o", color=color, ms=5, label=label)
    if points.front:
        edge_x, edge_y = zip(*points.front, strict=True)
        axis.plot(edge_x, edge_y, drawstyle="steps-post", color=GREEN, lw=1.6, label="front")


def _one_path(axis: Any, x: Array, y: Array, *, color: str, size: float, alpha: float) -> None:
    """All dots as one path of zero-length lines with round caps: forty thousand of them stay fast."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    corners = np.repeat(np.column_stack([x, y]), 2, axis=0)
    outline = Outline(corners, np.tile([Outline.MOVETO, Outline.LINETO], x.size))
    outline.should_simplify = False  # it would drop zero-length lines
    axis.add_patch(PathPatch(outline, fill=False, ec=color, lw=size, capstyle="round", alpha=alpha))
    axis.update_datalim(np.column_stack([x, y]))
    axis.autoscale_view()


def write(chart: Chart, folder: Path) -> list[Path]:
    """`folder`/NAME.svg and .png."""
    figure = draw(chart)
    try:
        return save(figure, folder / chart.name)
    finally:
        pyplot().close(figure)


def on_page(chart: Chart) -> tuple[str, dict[str, Any]]:
    """The chart as SVG, and what the page's cursor needs: where the axes lie, and the values of every line."""
    figure = draw(chart, light=True)
    try:
        drawn = inline(figure, chart.name)
        return drawn, _cursor(figure, chart)
    finally:
        pyplot().close(figure)


def _cursor(figure: Any, chart: Chart) -> dict[str, Any]:
    (axis,) = figure.axes
    width, height = (72 * inches for inches in figure.get_size_inches())
    place = axis.get_position()
    found: dict[str, Any] = {
        "box": _numbers([place.x0 * width, (1 - place.y1) * height, place.width * width, place.height * height]),
        "x": [*_numbers(axis.get_xlim()), chart.log_x],
        "y": [*_numbers(axis.get_ylim()), chart.log_y],
        "xName": chart.x,
        "yName": chart.y,
        "lines": [_line(line) for line in chart.lines if not line.faint],
    }
    if chart.areas:
        under = np.zeros_like(chart.area_x)
        for area in chart.areas:
            line = Line(area.label, area.color, chart.area_x, area.y)
            found["lines"].append(_line(line) | {"at": _numbers(under + area.y / 2)})
            under = under + area.y
    if chart.points is not None:
        found["points"] = {"runs": chart.points.runs, "metric": chart.points.metric}
        found["lines"] = []
    return found


def _line(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {"label": line.label, "color": NAMES.get(line.color, NAMES[GREY])}
    columns = {"x": line.x, "y": line.y, "low": line.low, "high": line.high}
    return found | {name: _numbers(values) for name, values in columns.items() if values is not None}


def _numbers(values: Any) -> list[float | None]:
    """To six digits; None where not finite."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in map(float, values)]
