"""The page of a run, of both arms, or of several tasks: written into a folder, or served while it is in progress."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from rewardrate import __version__
from rewardrate.errors import InputError
from rewardrate.reports import chart, charts, crossing_curves, pace, speedrun
from rewardrate.reports.chart import Chart
from rewardrate.reports.document import document, escape, figure, fold, table
from rewardrate.reports.evaluation import Value
from rewardrate.reports.lineage import lineage
from rewardrate.reports.redaction import redacted, redacted_settings
from rewardrate.reports.result import CHOICES, many_tasks, one_task, runs_table
from rewardrate.reports.run import Experiment, Run, differing, experiments, gather
from rewardrate.reports.texts import shortened

SHOWN = 20_000  # characters of a script in the list of the best; the tree shows more


class Builder:
    """Collects the parts of one page and what its cursors need."""

    def __init__(self, runs: Sequence[Run], problems: Sequence[str] = ()) -> None:
        self.experiments = experiments(runs)
        self.runs = [run for experiment in self.experiments for run in experiment.runs]
        self.problems = list(problems)
        self.cursors: dict[str, Any] = {}
        self.sections: dict[str, str] = {}

    def page(self, title: str, *, live: bool = False, stamp: str = "") -> str:
        """The whole page."""
        body = self._head(title) + self._result() + self._race()
        body += self._charts() if len(self.experiments) == 1 else self._grids()
        data, notes = lineage(self.runs)
        body += self._lineage(notes) + self._scripts() + self._record()
        body += f"<footer>rewardrate {escape(__version__)}. This page is self-contained.</footer>"
        found = {"charts": self.cursors, "lineage": data, "stamp": stamp}
        return document(title, body, sections=self.sections, data=found, live=live)

    def _head(self, title: str) -> str:
        first = self.runs[0].about
        arms = list(dict.fromkeys(run.label for run in self.runs))
        facts = [", ".join(experiment.task for experiment in self.experiments), " and ".join(arms)]
        facts += [f"policy {first['policy']}"] if first.get("policy") else []
        facts += [f"{first['clock']} clock"] if first.get("clock") else []
        facts += [f"started {first['started']}"] if first.get("started") else []
        notices = [f"Left out: {problem}" for problem in self.problems]
        for experiment in self.experiments:
            names = differing(experiment)
            if names:
                notices.append(f"The runs of {experiment.task} differ in more than arm and seed: {', '.join(names)}.")
        notices += [note for run in self.runs for note in _conditions(run)]
        shown = "".join(f'<p class="notice">{escape(redacted(notice))}</p>' for notice in notices)
        return f'<h1>{escape(title)}</h1><p class="lead">{escape(redacted(" · ".join(facts)))}</p>{shown}'

    # ---- what came out

    def _result(self) -> str:
        self.sections["result"] = "Result"
        inside = one_task(self.experiments[0]) if len(self.experiments) == 1 else many_tasks(self.experiments)
        runs = runs_table(self.runs)
        listed = f"<h2>Runs</h2>{runs}" if len(self.runs) <= 8 else fold(f"{len(self.runs)} runs, one by one", runs)
        return f'<section id="result">{inside}{listed}</section>'

    def _race(self) -> str:
        found = speedrun.section(self.experiments)
        if found:
            self.sections["race"] = "Crossings"
        races = [(place, one) for place, one in enumerate(self.experiments) if crossing_curves.charts(one)]
        for place, one in races:
            self.sections.setdefault("crossing-curves", "Best crossing")
            curves = crossing_curves.charts(one)
            curves = curves if len(races) == 1 else [renamed(curve, place) for curve in curves]
            drawn = "".join(map(self._draw, curves))
            listed = table(list(crossing_curves.HEAD), crossing_curves.rows(one), right=range(1, 7))
            title = f"{escape(one.task)}: the best crossing at a time budget"
            name = ' id="crossing-curves"' if (place, one) == races[0] else ""
            found += f'<section{name}><h2>{title}</h2><div class="charts">{drawn}</div>{listed}</section>'
        return found

    # ---- charts

    def _draw(self, one: Chart, choice: str = "") -> str:
        drawn, cursor = chart.on_page(one)
        self.cursors[one.name] = cursor
        return figure(drawn, one.name, one.title, one.caption, choice=choice)

    def _charts(self) -> str:
        one = self.experiments[0]
        made = {drawn.name: drawn for drawn in [*charts.charts(one), *pace.pace(one)]}
        budgets = [one for name, one in made.items() if name.startswith("budget-")]
        body = self._switch("budget", budgets, self._draw(made["cumulative"]))
        first = all(len(run.steps) < 2 for run in self.runs)  # a line through one point says nothing
        groups = {
            "rate": ("Rate", "What a second is worth", ["rate", "seconds"], ""),
            "steps": ("Steps", "What the policy has learnt", ["valid", "reward"], ""),
            "attempts": ("Attempts", "Score and seconds of every attempt", _named(made, "attempts-", "frontier"), ""),
            "failures": ("Failures", "What fails, and how", _named(made, "failures-"), ""),
            "pace": ("Pace", "How the time of the run is used", _named(made, "phases-", "idle", "age"), ""),
            "learning": ("Learning", "Health of the learner", _named(made, "health-"), " small"),
        }
        if first:
            body += '<p class="soft">After one step there is nothing to draw over steps yet: its numbers are above.</p>'
        for key, (short, title, names, kind) in groups.items():
            if names and not (first and key in ("rate", "steps", "pace", "learning")):
                self.sections[key] = short
                drawn = "".join(self._draw(made[name]) for name in names)
                body += f'<section id="{key}"><h2>{title}</h2><div class="charts{kind}">{drawn}</div></section>'
        return body

    def _switch(self, key: str, budgets: Sequence[Chart], beside: str) -> str:
        self.sections[key] = "Budget"
        drawn = ""
        for one in budgets:
            _, metric, value = one.name.split("-", 2)
            drawn += self._draw(one, f"{metric}: {CHOICES[cast(Value, value)]}")
        return (
            f'<section id="{key}"><h2>What a time budget buys</h2><div class="charts">'
            f'<div data-switch="{key}">{drawn}</div>{beside}</div></section>'
        )

    def _grids(self) -> str:
        body = ""
        for key, short, title, grid in (
            ("budget", "Budget", "What a time budget buys, task by task", budget_grid(self.experiments)),
            ("cumulative", "Cumulative", "Cumulative reward, task by task", cumulative_grid(self.experiments)),
            ("steps", "Steps", "Valid share, reward and seconds, step by step", steps_grid(self.experiments)),
        ):
            self.sections[key] = short
            drawn = "".join(self._draw(one) for one in grid)
            body += f'<section id="{key}"><h2>{title}</h2><div class="charts small">{drawn}</div></section>'
        note = "Rate, attempts, failures and learning of a task: report its runs alone."
        return f'{body}<p class="soft">{note}</p>'

    # ---- scripts and record

    def _lineage(self, notes: Sequence[str]) -> str:
        self.sections["lineage"] = "Lineage"
        said = "".join(f'<p class="notice">{escape(note)}</p>' for note in notes)
        words = (
            "Every attempt was asked to improve its parent, the one to its left. A node shows score and seconds; "
            "stronger colour is more reward, a broken ring is a failure. Click one, or walk with the arrow keys and "
            "press Enter, to read its script and what it changed."
        )
        return (
            f'<section id="lineage"><h2>How scripts descend from one another</h2><p class="soft">{words}</p>{said}'
            '<noscript><p class="notice">The tree needs JavaScript.</p></noscript>'
            '<div id="tree"></div><div id="attempt" class="attempt" hidden></div></section>'
        )

    def _scripts(self) -> str:
        self.sections["scripts"] = "Best scripts"
        parts = []
        for place, run in enumerate(self.runs[:24]):
            best, quick = run.best, run.quickest
            name = run.label if len(self.experiments) == 1 else f"{run.task}, {run.label}"
            name += f", seed {run.seed}" if sum(other.label == run.label for other in self.runs) > 1 else ""
            if best is None or quick is None:
                parts.append(f"<p>{escape(name)}: no valid script.</p>")
                continue
            for words, row in (("best script", best), ("most reward per second", quick))[: 1 if best is quick else 2]:
                head = f"{name}: {words} (step {row.step}, reward {row.reward:.3f} in {row.seconds:.2f} s)"
                button = f'<button type="button" hidden data-open="{place}:{row.id}">show in the tree</button>'
                said = f'<p class="message soft">{escape(redacted(row.message))}</p>{button}'
                parts.append(fold(head, f'{said}<pre tabindex="0">{escape(shortened(row.code, SHOWN))}</pre>'))
        return f'<section id="scripts"><h2>Best scripts</h2>{"".join(parts)}</section>'

    def _record(self) -> str:
        self.sections["record"] = "Record"
        parts = []
        for run in self.runs[:24]:
            facts = table(["what", "value"], [[key, redacted(value)] for key, value in sorted(run.about.items())])
            events = [[f"{event.step}", event.kind, redacted(event.message)] for event in run.events[-200:]]
            said = table(["step", "event", "message"], events) if events else ""
            config = f'<pre tabindex="0">{escape(redacted_settings(run.config_text))}</pre>' if run.config_text else ""
            name = f"{run.task} {run.label} {run.seed}".strip()
            parts.append(fold(f"{name}: settings, machine, events", facts + said + config))
        return f'<section id="record"><h2>Record</h2>{"".join(parts)}</section>'


def page(runs: Sequence[Run], title: str, *, problems: Sequence[str] = (), live: bool = False, stamp: str = "") -> str:
    """The page as text."""
    return Builder(runs, problems).page(title, live=live, stamp=stamp)


def write(places: Path | Sequence[Path], out: Path | None = None) -> Path:
    """Write report.html for a run folder, or for folders of runs; atomically. Returns its path.

    It goes into the folder that was named, or into `out`, which several folders need.
    """
    folders = [Path(places)] if isinstance(places, str | Path) else [Path(place) for place in places]
    runs, problems = gather(folders)
    target = Path(out) if out is not None else folders[0]
    if out is None and len(folders) > 1:
        raise InputError("out", None, "several folders need one to write into", "give --out")
    return write_text(target, "report.html", page(runs, title_of(folders, target), problems=problems))


def title_of(folders: Sequence[Path], out: Path) -> str:
    """The page's title: the folder's name."""
    folder = folders[0] if len(folders) == 1 else out
    return folder.resolve().name or "report"


def write_text(folder: Path, name: str, text: str) -> Path:
    """Write a file atomically; InputError where it cannot be written."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.part")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        rule = f"{name} cannot be written there ({error.strerror})"
        raise InputError("out", str(folder), rule, "name another folder with --out") from None
    return path


def budget_grid(found: Sequence[Experiment]) -> list[Chart]:
    """One small budget chart a task, by score where its direction is known. Paper, figure (fig:mlebench:per_task)."""
    return [renamed(charts.budget(one, one.metrics[-1], small=True), place) for place, one in enumerate(found)]


def cumulative_grid(found: Sequence[Experiment]) -> list[Chart]:
    """One small chart of cumulative reward a task. Paper, figure (fig:mlebench:cumreward)."""
    return [renamed(charts.cumulative(one, small=True), place) for place, one in enumerate(found)]


def steps_grid(found: Sequence[Experiment]) -> list[Chart]:
    """Three small charts a task: valid share, reward and seconds of its steps."""
    return [renamed(one, place) for place, task in enumerate(found) for one in charts.over_steps(task, small=True)]


def renamed(one: Chart, place: int) -> Chart:
    """One of several small charts of a kind: a name of its own, no caption."""
    from dataclasses import replace

    return replace(one, name=f"{one.name}-{place}", caption="")


def _named(made: dict[str, Chart], *starts: str) -> list[str]:
    return [name for name in made if name.startswith(starts)]


def _conditions(run: Run) -> list[str]:
    """Conditions of a run that affect its numbers, as notices."""
    notes = []
    name = f"{run.task} {run.label} {run.seed}".strip()
    done, total = run.under_way
    if total and pace.is_stream(run) and run.ended:
        notes.append(
            f"{name}: its budget is used up. {total} attempts that had begun are in no step ({done} of them ended), "
            "so no number of this page has them."
        )
    elif total and pace.is_stream(run):
        notes.append(f"{name}: {total} attempts that began are in no step, or not yet; {done} of them have ended.")
    elif total:
        notes.append(
            f"{name}: step {len(run.steps) + 1} is under way, or was when the run stopped: {done} of {total} scripts."
        )
    contaminated = sum(attempt.contaminated for attempt in run.attempts)
    if contaminated:
        notes.append(
            f"{name}: {contaminated} of {len(run.attempts)} attempts shared their cores with other work while timed."
        )
    failures = len(run.attempts) - len(run.charged)
    if failures:
        notes.append(f"{name}: the sandbox failed on {failures} attempts; these are not charged.")
    return notes
