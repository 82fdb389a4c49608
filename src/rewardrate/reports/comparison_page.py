"""The page of a comparison, with its figures and tables. Before the plan is complete it shows no difference of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate import __version__, config
from rewardrate.reports import chart, charts, forest
from rewardrate.reports.chart import Chart, Line
from rewardrate.reports.comparison import WORDS, ComparisonResult, Contrast, counted
from rewardrate.reports.comparison_tables import HEAD, as_table, pooled_rows, progress_rows, texts
from rewardrate.reports.document import document, escape, figure, fold, table, tile
from rewardrate.reports.evaluation import Interval
from rewardrate.reports.files import save_closed
from rewardrate.reports.forest import Forest, ForestRow
from rewardrate.reports.page import renamed, write_text
from rewardrate.reports.redaction import redacted, redacted_settings
from rewardrate.reports.result import QUANTITIES, task_table
from rewardrate.reports.run import Experiment, experiments
from rewardrate.reports.style import BLUE, GREY, pyplot
from rewardrate.reports.survey import Survey, survey
from rewardrate.reports.svg import inline
from rewardrate.reports.tables import interval
from rewardrate.runlog.comparison import ComparisonFolder

FOREST = (
    "Square: mean over seeds; dots above it: seeds; line: 95 % bootstrap interval over the seeds of the task and "
    "their chains, which is too narrow with few seeds and no evidence by itself. Diamond: the estimate over all tasks "
    "with its interval, for which tasks are drawn, then seeds of each, and no chains."
)


@dataclass(frozen=True)
class WrittenComparison:
    """Paths and results."""

    survey: Survey
    result: ComparisonResult | None
    "None before the plan is complete, unless it was asked for."
    page: Path
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]

    @property
    def table(self) -> dict[str, Any]:
        """Everything for programs."""
        return as_table(self.survey, self.result)


def write(place: Path, *, peek: bool = False) -> WrittenComparison:
    """Read the folder of a comparison and write report.html, tables/ and figures/ into it.

    Differences of arms are there once the stopping rule is met, or with `peek`, which the page then says.
    """
    folder = ComparisonFolder(place)
    found = survey(folder)
    result = ComparisonResult(found) if found.complete and (found.finished or peek) else None
    figures: list[Path] = []
    tables: tuple[Path, ...] = ()
    if result is not None:
        tables = tuple(write_text(place / "tables", name, text) for name, text in texts(result).items())
        figures = _figures(result, place / "figures")
    title = place.resolve().name or "comparison"
    written = write_text(place, "report.html", page(found, result, title, folder.recipe()))
    return WrittenComparison(found, result, written, tuple(figures), tables)


def page(found: Survey, result: ComparisonResult | None, title: str, recipe: str) -> str:
    """The page as text."""
    sections: dict[str, str] = {}
    cursors: dict[str, Any] = {}
    body = _head(found, result, title)
    if result is not None:
        sections |= {"result": "Result", "tasks": "Tasks", "curves": "Curves"}
        body += _result(result) + _tasks(result) + _curves(result, cursors)
    sections |= {"progress": "Blocks", "deviations": "Deviations", "plan": "Plan"}
    body += _progress(found) + _deviations(found) + _plan(found, recipe)
    body += f"<footer>rewardrate {escape(__version__)}. This page is self-contained.</footer>"
    return document(title, body, sections=sections, data={"charts": cursors})


def _head(found: Survey, result: ComparisonResult | None, title: str) -> str:
    plan = found.plan
    facts = [
        f"{', '.join(plan.arms)} on {counted(len(plan.tasks), 'task')}, {counted(len(plan.seeds), 'seed')}",
        f"T = {found.final:g} s of script time per chain",
        f"recipe {plan.recipe}",
        f"plan {found.state['sha256'][:12]}, frozen {found.state['frozen']}",
    ]
    notices = []
    if not found.finished:
        said = f"Unfinished: {len(found.complete)} of {found.plan.needed} blocks are complete."
        if result is None:
            said += " Differences between arms are shown when the plan is complete."
        else:
            said += " Differences were looked at before the plan was complete: they may choose when to stop."
        notices.append(said)
    if found.deviations:
        notices.append(f"{counted(len(found.deviations), 'deviation')} from the plan, listed below.")
    shown = "".join(f'<p class="notice">{escape(notice)}</p>' for notice in notices)
    return f'<h1>{escape(title)}</h1><p class="lead">{escape(redacted(" · ".join(facts)))}</p>{shown}'


# ---- what came out


def _result(result: ComparisonResult) -> str:
    contrasts = result.contrasts
    said = "".join(f'<p class="verdict">{"<br>".join(map(escape, one.headline))}</p>' for one in contrasts)
    drawn = ""
    for place, panel in enumerate(panels(contrasts)):
        shown = _inline(forest.draw([panel]), f"forest-{place}")
        drawn += figure(shown, f"forest-{place}", panel.title, "")
    words = "; ".join(words for words in QUANTITIES.values() if "(" in words)
    note = (
        f"Means over tasks of means over seeds, over complete blocks. The first quantity is the plan's, the others are "
        f"secondary: {words}. A value at T is the mean over 21 budgets from 0.8 T to T. In brackets: 95 % percentile "
        "bootstrap, 10,000 draws: tasks with replacement, then seeds of each; both arms of a block stay together."
    )
    body = f'{said}{_tiles(result)}<div class="charts">{drawn}</div><p class="soft">{escape(FOREST)}</p>'
    body += f'{"".join(map(_quantities, contrasts))}<p class="soft">{escape(note)}</p>{_sensitivity(contrasts)}'
    return f'<section id="result"><h2>Result</h2>{body}</section>'


def _quantities(contrast: Contrast) -> str:
    """Every quantity of one contrast."""
    head = ["quantity", contrast.arm, contrast.against, *HEAD[4:]]
    listed = table(head, [row[1:] for row in pooled_rows([contrast])], right=range(1, 6))
    return f"<h2>{escape(contrast.name)}</h2>{listed}"


def _tiles(result: ComparisonResult) -> str:
    """The primary metric of every arm, then every difference."""
    means: dict[str, float | None] = {}
    differences = ""
    for one in result.contrasts:
        means |= {one.against: one.primary.against, one.arm: one.primary.arm}
        value, low, high = (getattr(one.primary.difference, name) for name in ("value", "low", "high"))
        known = "no interval" if low is None else f"{low:+.3f} to {high:+.3f}"
        differences += tile("-" if value is None else f"{value:+.3f}", f"{one.name} ({known})")
    arms = (tile("-" if mean is None else f"{mean:.3f}", f"{arm}: reward at T", arm) for arm, mean in means.items())
    return f'<div class="tiles">{"".join(arms)}</div><div class="tiles">{differences}</div>'


def _sensitivity(contrasts: Sequence[Contrast]) -> str:
    """The primary difference, computed in other ways."""
    rows = [
        [one.name, words, interval(found, sign=True)]
        for one in contrasts
        for words, found in (
            ("without blocks that deviate from the plan", one.without_deviations),
            ("starts drawn in place of tasks", one.by_start),
        )
        if found is not None
    ]
    return table(["difference of", "sensitivity of the primary metric", "difference (95 %)"], rows) if rows else ""


def _tasks(result: ComparisonResult) -> str:
    first, *others = (task_table(one.experiments, one.table) for one in result.contrasts)
    names = [f"{one.arm} and {one.against}" for one in result.contrasts[1:]]
    folded = "".join(fold(name, shown) for name, shown in zip(names, others, strict=True))
    return f'<section id="tasks">{first}{folded}</section>'


def panels(contrasts: Sequence[Contrast]) -> list[Forest]:
    """The forest plot of every contrast."""
    panels = []
    for one in contrasts:
        intervals: Mapping[str, Interval] = {Path(row.task).name: row.both.difference for row in one.table.rows}
        rows = [
            ForestRow(task, intervals.get(task, Interval(one.primary.by_task[task], None, None)), tuple(seeds.values()))
            for task, seeds in one.primary.tasks.items()
        ]
        panels.append(Forest(one.name, "difference in reward at T", tuple(rows), one.primary.difference))
    return panels


def _experiments(result: ComparisonResult) -> list[Experiment]:
    runs = [run for one in result.survey.complete for run in one.runs.values()]
    return experiments(runs, planned=result.survey.final)


def _budget_charts(result: ComparisonResult) -> list[Chart]:
    """Every task: the curves of all arms, by what the plan says a chain shows."""
    value = result.survey.plan.value
    found = [charts.budget(one, "reward", value, small=True) for one in _experiments(result)]
    return [renamed(one, place) for place, one in enumerate(found)]


def _difference_charts(result: ComparisonResult) -> list[Chart]:
    """Every contrast: the pooled difference at every budget."""
    made = []
    for place, one in enumerate(result.contrasts):
        mean_B, low_B, high_B = one.curve
        zero = Line("0", GREY, one.budgets, 0 * one.budgets, faint=True)
        line = Line(one.name, BLUE, one.budgets, mean_B, low=low_B, high=high_B)
        made.append(
            Chart(
                name=f"difference-{place}",
                title=f"{one.name}, at every budget",
                caption="Mean over tasks of the mean over seeds; the band is the pointwise 95 % interval over tasks "
                "and seeds. The plan judges the end: 0.8 T to T.",
                x="script seconds per chain",
                y="difference in reward",
                lines=(zero, line),
            )
        )
    return made


def _curves(result: ComparisonResult, cursors: dict[str, Any]) -> str:
    def drawn(one: Chart) -> str:
        shown, cursors[one.name] = chart.on_page(one)
        return figure(shown, one.name, one.title, one.caption)

    differences = "".join(map(drawn, _difference_charts(result)))
    budgets = "".join(map(drawn, _budget_charts(result)))
    return (
        f'<section id="curves"><h2>What a time budget buys</h2><div class="charts">{differences}</div>'
        f"<h2>Task by task: {escape(WORDS[result.contrasts[0].primary.name])}</h2>"
        f'<div class="charts small">{budgets}</div><p class="soft">Faint lines are seeds; the band is over seeds and '
        "chains.</p></section>"
    )


# ---- the record


def _progress(found: Survey) -> str:
    head = ["block", *(f"{arm}: share of T" for arm in found.plan.arms), "state"]
    listed = table(head, progress_rows(found), right=range(1, len(head) - 1))
    said = f"{len(found.complete)} of {len(found.blocks)} blocks are complete; {found.plan.needed} are needed."
    inside = listed if not found.finished else fold("Every block", listed)
    return f'<section id="progress"><h2>Blocks</h2><p>{escape(said)}</p>{inside}</section>'


def _deviations(found: Survey) -> str:
    listed = "".join(f"<li>{escape(redacted(one))}</li>" for one in found.deviations)
    shown = f"<ul>{listed}</ul>" if listed else "<p>None.</p>"
    return f'<section id="deviations"><h2>Deviations from the plan</h2>{shown}</section>'


def _plan(found: Survey, recipe: str) -> str:
    plan = found.plan
    text = redacted_settings(f"# SHA-256 of plan and recipe: {found.state['sha256']}\n{config.dumps(plan)}")
    return (
        f'<section id="plan"><h2>Plan</h2><p>{escape(plan.hypothesis)}</p><p>Stopping rule: '
        f"{escape(plan.stopping)} ({plan.needed} blocks).</p>"
        f"{fold('The plan', f'<pre>{escape(text)}</pre>')}"
        f"{fold('The recipe, resolved', f'<pre>{escape(redacted_settings(recipe))}</pre>')}</section>"
    )


def _inline(drawn: Any, name: str) -> str:
    try:
        return inline(drawn, name)
    finally:
        pyplot().close(drawn)


def _figures(result: ComparisonResult, folder: Path) -> list[Path]:
    drawn = {
        "forest": forest.draw(panels(result.contrasts)),
        "budget-grid": chart.draw_grid(_budget_charts(result)),
        "difference": chart.draw_grid(_difference_charts(result)),
    }
    return [path for name, one in drawn.items() for path in save_closed(one, folder / name)]
