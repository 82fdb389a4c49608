"""The files of a report: the page, figures as SVG and PNG, the table as Markdown, LaTeX and CSV, in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.errors import InputError
from rewardrate.reports import chart, charts, crossing_curves, pace, study, theory
from rewardrate.reports.evaluation import Metric
from rewardrate.reports.page import budget_grid, cumulative_grid, page, steps_grid, title_of, write_text
from rewardrate.reports.run import Experiment, Run, experiments, folders, gather
from rewardrate.reports.style import pyplot, save
from rewardrate.reports.tables import TaskTable, comma_separated, latex, markdown
from rewardrate.reports.tables import table as table_of
from rewardrate.runlog import RunLog

FORMATS = {"table.md": markdown, "table.tex": latex, "table.csv": comma_separated}


@dataclass(frozen=True)
class Written:
    """Paths and results of a written report."""

    page: Path
    figures: tuple[Path, ...] = ()
    tables: tuple[Path, ...] = ()
    runs: tuple[Run, ...] = ()
    table: TaskTable | None = None
    problems: tuple[str, ...] = ()


def write(places: Sequence[Path], out: Path | None = None, metric: Metric | None = None) -> Written:
    """Read run folders and write everything about them into `out`, or into the one folder that was named.

    A folder with the result of `theory check` or `bandit study` gives the page of that. InputError if there is nothing
    to read, or no place to write.
    """
    if out is None and len(places) > 1:
        raise InputError("--out", None, "several folders need one to write the page into", "name it: --out DIR")
    target = Path(places[0]) if out is None else Path(out)
    for kind in (theory, study) if len(places) == 1 else ():
        if (Path(places[0]) / kind.FILE).is_file():
            return Written(write_text(target, "report.html", kind.page(Path(places[0]))))
    for place in places:
        if (Path(place) / "experiment.json").is_file():
            rule = "it holds one bandit experiment, which is drawn already: experiment.png"
            raise InputError("run", str(place), rule, "for a page of many: rewardrate bandit study")
    for name in ("figures", "tables"):
        if (target / name).exists() and not (target / name).is_dir():
            raise InputError("--out", str(target), f"a file named {name} is where a folder must be", "move it")
    if out is None:
        _own(target)
    runs, problems = gather(places)
    found = experiments(runs)
    written = write_text(target, "report.html", page(runs, title_of(places, target), problems=problems))
    table, paths = _tables(found, target / "tables", metric)
    paths += tuple(
        write_text(target / "tables", f"crossings-{place}.md" if len(found) > 1 else "crossings.md", text)
        for place, one in enumerate(found)
        if crossing_curves.charts(one) and (text := crossing_curves.markdown(one))
    )
    return Written(
        page=written,
        figures=tuple(_figures(found, target / "figures")),
        tables=paths,
        runs=tuple(runs),
        table=table,
        problems=tuple(problems),
    )


OURS = ("report.html", "figures", "tables")


def _own(folder: Path) -> None:
    """InputError where a report would be strewn among the files of others.

    Ours is a run, a folder that has a report already, and one in which every folder is a run or holds runs.
    """
    if RunLog.exists(folder) or not folder.is_dir() or (folder / OURS[0]).exists():
        return
    above = {parent for run in folders(folder) for parent in (run, *run.parents)}
    others = [path.name for path in sorted(folder.iterdir()) if path not in above and path.name not in OURS]
    others = [name for name in others if not name.startswith(".")]
    if others:
        rule = f"there are other things in it ({', '.join(others[:3])}{', ...' if others[3:] else ''})"
        remedy = f"say where the report's files go: --out {folder / 'report'}, or --out {folder} for all of them here"
        raise InputError("run", str(folder), rule, remedy)


def _figures(found: Sequence[Experiment], folder: Path) -> list[Path]:
    if len(found) == 1:
        drawn = [*charts.charts(found[0]), *pace.pace(found[0]), *crossing_curves.charts(found[0])]
        return [path for one in drawn for path in chart.write(one, folder)]
    grids = {
        "budget-grid": chart.draw_grid(budget_grid(found)),
        "cumulative-grid": chart.draw_grid(cumulative_grid(found)),
        "steps-grid": chart.draw_grid(steps_grid(found), columns=3),
    }
    return [path for name, grid in grids.items() for path in save_closed(grid, folder / name)]


def save_closed(figure: Any, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG, and close it."""
    try:
        return save(figure, stem)
    finally:
        pyplot().close(figure)


def _tables(
    found: Sequence[Experiment], folder: Path, metric: Metric | None
) -> tuple[TaskTable | None, tuple[Path, ...]]:
    """The table in every format; nothing if no task has both arms, unless a metric was asked for."""
    arms = list(dict.fromkeys(arm for one in found for arm in one.contrasts))
    if not arms:
        if metric is not None:
            raise InputError("--metric", metric, "no task has a finished run of each arm", "train --arm both")
        return None, ()
    tables = [table_of(found, metric, arm=arm) for arm in arms]
    paths = []
    for place, table in enumerate(tables):
        more = "" if place == 0 else "-" + "".join(character if character.isalnum() else "-" for character in table.arm)
        paths += [write_text(folder, name.replace(".", f"{more}.", 1), made(table)) for name, made in FORMATS.items()]
    return tables[0], tuple(paths)
