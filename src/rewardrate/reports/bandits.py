"""The figures of a bandit study, drawn from its file. Its tables: `reports.bandit_tables`."""

from __future__ import annotations

import json
import math
import sqlite3
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rewardrate.errors import InputError
from rewardrate.reports.style import BLUE, BROWN, GREEN, GREY, INK, ORANGE, PURPLE, SKY, YELLOW, pyplot, save

STYLES = {
    "npg": (BLUE, "o", "NPG-NIW"),
    "spg": (ORANGE, "s", "SPG-NIW"),
    "cucb": (GREEN, "D", "C-UCB, tuned"),
    "cucb-exact": (PURPLE, "v", "C-UCB, exact"),
    "cucb theory": (GREY, "^", "C-UCB, theory"),
}
EXTRA_STYLES = ((SKY, "P"), (YELLOW, "X"), (BROWN, "*"))
FORMAT = "rewardrate bandit study 1"
Rows = list[dict[str, Any]]


class AgentCurve(NamedTuple):
    """One agent of a single experiment, ready to draw."""

    label: str
    steps: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    price: Sequence[float]


class Study:
    """A study file, read once."""

    def __init__(self, path: Path) -> None:
        if not Path(path).is_file():
            raise InputError("results", str(path), "there is no such file", "rewardrate bandit study writes one")
        try:
            connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
            connection.row_factory = sqlite3.Row
            with connection:
                self.about = dict(connection.execute("SELECT name, value FROM about").fetchall())
                tables = {
                    name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")]
                    for name in ("tuning", "evaluation", "curves")
                }
            connection.close()
        except sqlite3.Error as error:
            raise InputError("results", str(path), f"it is damaged, or no study ({error})") from None
        if self.about.get("format") != FORMAT:
            raise InputError("results", str(path), f"it is of another version (wanted: {FORMAT})")
        if not tables["curves"]:
            remedy = "let rewardrate bandit study finish first"
            raise InputError("results", str(path), "no agent has been evaluated yet", remedy)
        self.tuning, self.evaluation, self.curves = tables["tuning"], tables["evaluation"], tables["curves"]
        self.contexts = sorted({row["contexts"] for row in self.curves})
        self.families = sorted({row["family"] for row in self.curves})
        self.arms = sorted({row["arms"] for row in self.curves})
        found = {row["agent"] for row in self.curves}
        self.agents = [name for name in STYLES if name in found] + sorted(found - set(STYLES))
        self._curves, self._evaluation = _by_cell(self.curves), _by_cell(self.evaluation)

    @property
    def missing(self) -> str:
        """A sentence if cells of its recipe are not evaluated yet, else empty."""
        recipe = tomllib.loads(self.about.get("recipe", ""))
        wanted = math.prod(len(recipe.get(name, ())) for name in ("families", "contexts", "arms", "agents"))
        there = len({(row["family"], row["contexts"], row["arms"], row["agent"]) for row in self.curves})
        return f"Not finished: {there} of {wanted} cells are evaluated." if there < wanted else ""

    def curve(self, *, family: str, contexts: int, arms: int, agent: str) -> Rows:
        """Rows of `curves` of one cell, by step."""
        return sorted(self._curves.get((family, contexts, arms, agent), []), key=lambda row: row["step"])

    def final(self, *, family: str, contexts: int, arms: int, agent: str) -> dict[int, float]:
        """Seed -> regret at the horizon."""
        return {row["seed"]: row["regret"] for row in self._evaluation.get((family, contexts, arms, agent), [])}


def _by_cell(rows: Rows) -> dict[tuple[str, int, int, str], Rows]:
    found: dict[tuple[str, int, int, str], Rows] = {}
    for row in rows:
        found.setdefault((row["family"], row["contexts"], row["arms"], row["agent"]), []).append(row)
    return found


def select(rows: Rows, **cell: Any) -> Rows:
    """Rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in cell.items())]


def style_of(agent: str, agents: Sequence[str]) -> tuple[str, str, str]:
    """Colour, marker and name of an agent: the same in every figure of a study."""
    if agent == "cucb" and "cucb-exact" in agents:  # both are tuned; they differ in the search
        return (*STYLES[agent][:2], "C-UCB, sampled")
    if agent in STYLES:
        return STYLES[agent]
    others = [name for name in agents if name not in STYLES]
    color, marker = EXTRA_STYLES[others.index(agent) % len(EXTRA_STYLES)]
    return color, marker, agent


def drawings(study: Study, folder: Path) -> list[Callable[[], list[Path]]]:
    """Every figure of a study, one set per number of contexts, each drawn when it is called."""
    made: list[Callable[[], list[Path]]] = []
    for contexts in study.contexts:
        name = f"x{contexts}"
        made += [
            partial(draw_horizon, study, contexts, folder / f"horizon-{name}"),
            partial(draw_horizon, study, contexts, folder / f"pseudo-{name}", column="pseudo"),
            partial(draw_curves, study, contexts, folder / f"curves-{name}"),
            partial(draw_prices, study, contexts, folder / f"prices-{name}"),
        ]
        for agent in study.agents:
            stem = folder / f"tuning-{agent.replace(' ', '-')}-{name}"
            made.append(partial(draw_grid, study, contexts, agent, stem))
    return made


def draw_all(path: Path, folder: Path) -> list[Path]:
    """All of `drawings`, drawn."""
    return [written for draw in drawings(Study(path), folder) for written in draw()]


def draw_horizon(study: Study, contexts: int, stem: Path, column: str = "regret") -> list[Path]:
    """Regret at the horizon against the number of arms, one panel per family."""
    plt = pyplot()
    families = study.families
    figure, axes = plt.subplots(
        1, len(families), figsize=(3.1 * len(families) + 0.6, 3.2), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, family in zip(axes[0], families, strict=True):
        for agent in study.agents:
            ends = [study.curve(family=family, contexts=contexts, arms=arms, agent=agent)[-1:] for arms in study.arms]
            points = [
                (row["arms"], row[column], row[f"{column}_low"], row[f"{column}_high"]) for end in ends for row in end
            ]
            if points:
                _line(axis, np.array(points).T, style_of(agent, study.agents), markers=True)
        axis.set(title=family, xlabel="arms K", xticks=study.arms)
        _scale(axis)
    words = "regret" if column == "regret" else "pseudo-regret"
    steps = max(row["step"] for row in study.curves)
    axes[0][0].set_ylabel(f"{words} after {steps:,} steps")
    _legend(figure, axes[0][0])
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def draw_curves(study: Study, contexts: int, stem: Path) -> list[Path]:
    """Regret against step: families down, arms across."""

    def panel(axis: Any, family: str, arms: int) -> None:
        _agents(axis, study, {"family": family, "contexts": contexts, "arms": arms}, "regret")
        _scale(axis)

    return _panels(study, panel, "regret", 2.1, stem)


def draw_prices(study: Study, contexts: int, stem: Path) -> list[Path]:
    """Each agent's price of a second over the optimal rate."""

    def panel(axis: Any, family: str, arms: int) -> None:
        cell = {"family": family, "contexts": contexts, "arms": arms}
        here = select(study.evaluation, **cell)
        if here:
            _agents(axis, study, cell, "price", here[0]["optimal_rate"])
        axis.axhline(1.0, color=INK, lw=0.9, ls="--")
        axis.set_ylim(-0.05, 1.75)

    return _panels(study, panel, "price / optimal rate", 2.0, stem)


def _agents(axis: Any, study: Study, cell: dict[str, Any], column: str, unit: float = 1.0) -> None:
    """The curve of every agent in a cell, with its band, in units of `unit`."""
    names = (column, f"{column}_low", f"{column}_high")
    for agent in study.agents:
        points = [(row["step"], *(row[name] / unit for name in names)) for row in study.curve(**cell, agent=agent)]
        if points:
            _line(axis, np.array(points).T, style_of(agent, study.agents))


def _panels(study: Study, panel: Callable[[Any, str, int], None], label: str, height: float, stem: Path) -> list[Path]:
    """One panel for each family (down) and number of arms (across), steps on a logarithmic axis."""
    plt = pyplot()
    rows, columns = len(study.families), len(study.arms)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(2.7 * columns + 0.6, height * rows + 0.7),
        sharex=True,
        squeeze=False,
        constrained_layout=True,
    )
    for i, family in enumerate(study.families):
        for j, arms in enumerate(study.arms):
            panel(axes[i][j], family, arms)
            axes[i][j].set_xscale("log")
            axes[i][j].set_title(f"{family}, K = {arms}", fontsize=9)
        axes[i][0].set_ylabel(label)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    _legend(figure, axes[0][0])
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def draw_grid(study: Study, contexts: int, agent: str, stem: Path) -> list[Path]:
    """Median final regret on the tuning seeds over an agent's grid of two settings; the selected cell is framed."""
    rows = [row for row in select(study.tuning, contexts=contexts, agent=agent) if row["n"]]
    settings = [json.loads(row["settings"]) for row in rows]
    names = [name for name in (settings[0] if settings else {}) if len({str(entry[name]) for entry in settings}) > 1]
    if len(names) != 2:
        return []
    plt = pyplot()
    across, down = reversed(names) if names == ["c1", "c2"] else names  # as in the paper
    columns = _in_order({entry[across] for entry in settings})
    lines = _in_order({entry[down] for entry in settings})
    shape = (len(study.families), len(study.arms))
    figure, axes = plt.subplots(
        *shape, figsize=(2.6 * shape[1] + 0.8, 1.7 * shape[0] + 0.8), squeeze=False, sharex=True, sharey=True,
        constrained_layout=True,
    )  # fmt: skip
    for i, family in enumerate(study.families):
        for j, arms in enumerate(study.arms):
            here = [row for row in rows if row["family"] == family and row["arms"] == arms]
            if here:
                _heatmap(axes[i][j], here, (across, columns), (down, lines), f"{family}, K = {arms}")
    figure.supxlabel(across.replace("_", " "), fontsize=10)
    figure.supylabel(down.replace("_", " "), fontsize=10)
    figure.suptitle(
        f"{style_of(agent, study.agents)[2]}: median regret on the tuning seeds (dark is less)", fontsize=10
    )
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def _heatmap(
    axis: Any, rows: list[dict[str, Any]], across: tuple[str, list[Any]], down: tuple[str, list[Any]], title: str
) -> None:
    """One panel of a tuning grid. Values are medians on a log colour scale of the panel's own."""
    table = np.full((len(down[1]), len(across[1])), np.nan)
    for row in rows:
        entry = json.loads(row["settings"])
        i, j = down[1].index(entry[down[0]]), across[1].index(entry[across[0]])
        table[i, j] = row["median"]
        if row["selected"]:
            axis.add_patch(_frame(j, i))
    least = np.nanmin(table)
    axis.imshow(np.log10(table - min(least, 0.0) + 1.0), cmap="viridis", aspect="auto", origin="lower")
    axis.grid(False)
    axis.set_title(f"{title}: {least:,.0f}", fontsize=8)
    axis.set_xticks(range(len(across[1])), [_tick_label(value) for value in across[1]], rotation=60, fontsize=6.5)
    axis.set_yticks(range(len(down[1])), [_tick_label(value) for value in down[1]], fontsize=6.5)


def _in_order(values: set[Any]) -> list[Any]:
    """Numbers by size, then words."""
    return sorted(values, key=lambda value: (0, value, "") if isinstance(value, int | float) else (1, 0, str(value)))


def _tick_label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "none" if value is None else str(value)


def _frame(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=ORANGE, linewidth=2)


def draw_experiment(curves: Sequence[AgentCurve], optimal_rate: float, title: str, stem: Path) -> list[Path]:
    """One world: regret against step, and the price against the optimal rate."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), constrained_layout=True)
    labels = [curve.label for curve in curves]
    for curve in curves:
        style = style_of(curve.label, labels)
        _line(left, np.array([curve.steps, curve.mean, curve.low, curve.high]), style)
        right.plot(curve.steps, curve.price, color=style[0], lw=1.6)
    left.set(title=title, xlabel="step", ylabel="regret, mean and 95 % band")
    left.set_xscale("log")
    _scale(left)
    left.legend(loc="upper left")
    right.axhline(optimal_rate, color=INK, lw=1, ls="--", label=f"optimal rate {optimal_rate:.3f}")
    right.set(title="What a second is worth", xlabel="step", ylabel="price (reward per second)")
    right.set_xscale("log")
    right.legend(loc="upper left")
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def _line(axis: Any, points: Any, style: tuple[str, str, str], markers: bool = False) -> None:
    x, mean, low, high = points
    color, marker, name = style
    axis.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
    axis.plot(x, mean, color=color, lw=1.6, marker=marker if markers else None, ms=4.5, label=name)


def _scale(axis: Any) -> None:
    """Regret spans decades and may be negative: linear below 10, logarithmic above. Call it after drawing.

    Panels that share an axis get the range of all of them from the last call.
    """
    panels = axis.get_shared_y_axes().get_siblings(axis)
    lines = [line for panel in panels for line in panel.get_lines()]
    least = min((float(np.min(line.get_ydata())) for line in lines), default=0.0)
    most = max((float(panel.dataLim.ymax) for panel in panels if panel.get_lines()), default=1.0)
    axis.set_yscale("symlog", linthresh=10, linscale=0.5)
    axis.set_ylim(0.6 * least if least > 20 else min(0.0, 1.2 * least), max(1.15 * most, 1.0))
    low, high = axis.get_ylim()
    if low > 10 and high < 100 * low:  # powers of ten alone would leave the axis with one number, or none
        from matplotlib.ticker import FuncFormatter, SymmetricalLogLocator

        subs = (1.0, 2.0, 5.0) if high > 8 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
        axis.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=10, subs=subs))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=max(len(labels), 1), fontsize=9)
