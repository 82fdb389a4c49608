"""The paper's table over several tasks: both arms at T, relative improvement, means over tasks, wins and losses.

Written as Markdown, LaTeX and CSV. Paper, table (tab:mlebench_meanatT).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rewardrate.errors import InputError
from rewardrate.reports.evaluation import Comparison, Interval, Metric, Value, over_tasks
from rewardrate.reports.run import Experiment

FIELDS = (
    "task", "metric", "better", "repetitions", "T_seconds", "rpg", "rpg_se", "vanilla", "vanilla_se",
    "difference", "difference_low", "difference_high", "improvement_percent", "improvement_low", "improvement_high",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One task."""

    task: str
    metric: Metric
    higher_is_better: bool
    repetitions: int
    both: Comparison
    rpg_error: float | None
    "Standard error over repetitions; None with fewer than two."
    vanilla_error: float | None

    @property
    def verdict(self) -> str:
        """win, loss or tie; "clear" where the paired interval of the difference leaves out 0."""
        improvement, difference = self.both.improvement.value, self.both.difference
        gain = improvement if improvement is not None else difference.value
        if gain is None or gain == 0:
            return "tie"
        clear = difference.low is not None and difference.high is not None and difference.low * difference.high > 0
        return ("clear " if clear else "") + ("win" if gain > 0 else "loss")


@dataclass(frozen=True)
class Table:
    """Every task that has both arms, and what they come to together."""

    rows: tuple[Row, ...]
    mean: Interval
    "Mean over tasks of the relative improvement in percent."
    trimmed: Interval
    "The same after dropping the best and the worst task."
    left_out: tuple[str, ...]
    "Tasks without a pair of runs."

    def count(self, word: str) -> int:
        """Tasks whose verdict contains the word: win, loss, clear win, tie."""
        return sum(word in row.verdict for row in self.rows)


def table(experiments: Sequence[Experiment], metric: Metric | None = None, value: Value = "latest") -> Table:
    """The table by reward or by score; without a metric, by score where its direction is known, as in the paper.

    InputError if no task has a run of each arm.
    """
    rows: list[Row] = []
    left_out = []
    for experiment in experiments:
        chosen: Metric = metric or experiment.metrics[-1]
        both = experiment.compare(chosen, value) if chosen in experiment.metrics else None
        if both is None:
            left_out.append(experiment.task)
            continue
        errors = [standard_error(curves[:, -1]) for curves in (both.rpg_curves, both.vanilla_curves)]
        up = chosen == "reward" or bool(experiment.higher_is_better)
        rows.append(Row(experiment.task, chosen, up, len(experiment.pairs), both, *errors))
    if not rows:
        rule = "no task has a finished run of each arm" + (f" that can be compared by {metric}" if metric else "")
        raise InputError("runs", "rpg and vanilla", rule, "train --arm both")
    known: Mapping[str, Comparison] = {row.task: row.both for row in rows}
    return Table(tuple(rows), over_tasks(known, trim=0), over_tasks(known, trim=1), tuple(left_out))


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """Standard error of a mean over repetitions: standard deviation (n - 1) over the root of n; None below two."""
    known = [float(value) for value in values if math.isfinite(value)]
    return float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None


def markdown(found: Table) -> str:
    """The table for a README or an issue."""
    lines = [
        "| task | n | T (s) | rpg | vanilla | difference (95 %) | % improvement (95 %) |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found.rows:
        cells = [_arrow(row, "↑", "↓").replace("|", "\\|"), str(row.repetitions), f"{row.both.final:.0f}"]
        for arm in ("rpg", "vanilla"):
            text = _with_error(row, arm, " ± ")
            cells.append(f"**{text}**" if arm == leader(row) else text)
        cells += [interval(row.both.difference), interval(row.both.improvement, 1, sign=True)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *summary(found)]
    return "\n".join(lines) + "\n"


def latex(found: Table) -> str:
    """The table for a paper (booktabs)."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"Task & rpg & vanilla & \% improv. & 95\,\% interval \\",
        r"\midrule",
    ]
    for row in found.rows:
        cells = [_tex(_arrow(row, "", "")) + (r" $(\uparrow)$" if row.higher_is_better else r" $(\downarrow)$")]
        for arm in ("rpg", "vanilla"):
            text = _with_error(row, arm, r" $\pm$ ")
            cells.append(rf"\textbf{{{text}}}" if arm == leader(row) else text)
        cells += [_tex_number(row.both.improvement.value), _tex_interval(row.both.improvement)]
        lines.append(" & ".join(cells) + r" \\")
    lines.append(r"\midrule")
    for name, value in (("mean", found.mean), ("mean without the best and the worst", found.trimmed)):
        lines.append(f"{name} & & & {_tex_number(value.value)} & {_tex_interval(value)} " + r"\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def comma_separated(found: Table) -> str:
    """The table for programs, at full precision; an empty cell is not defined."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in found.rows:
        both = row.both
        writer.writerow([
            _safe_cell(row.task), row.metric, "higher" if row.higher_is_better else "lower", row.repetitions,
            *(_full(value) for value in (
                both.final, both.rpg.value, row.rpg_error, both.vanilla.value, row.vanilla_error,
                both.difference.value, both.difference.low, both.difference.high,
                both.improvement.value, both.improvement.low, both.improvement.high,
            )),
        ])  # fmt: skip
    return out.getvalue()


def summary(found: Table) -> list[str]:
    """Sentences under the table."""
    tasks = f"{len(found.rows)} task{'s' if len(found.rows) != 1 else ''}"
    lines = [f"Mean improvement over {tasks}: {interval(found.mean, 1, sign=True)} %."]
    if found.trimmed.value is not None:
        lines.append(f"Without the best and the worst task: {interval(found.trimmed, 1, sign=True)} %.")
    wins, losses = found.count("win"), found.count("loss")
    clear = found.count("clear win"), found.count("clear loss")
    lines.append(f"rpg is ahead on {wins} ({clear[0]} clearly) and behind on {losses} ({clear[1]} clearly).")
    if min(row.repetitions for row in found.rows) < 2:
        lines.append(
            "With one repetition an interval knows the spread of the chains alone, not that of training again."
        )
    if found.left_out:
        lines.append(f"Left out, because an arm is missing: {', '.join(found.left_out)}.")
    return lines


def leader(row: Row) -> str:
    """Which arm is ahead: rpg, vanilla or neither."""
    return "rpg" if "win" in row.verdict else "vanilla" if "loss" in row.verdict else ""


def interval(value: Interval, digits: int = 3, *, sign: bool = False) -> str:
    """12.3 (10.1 to 14.2); a dash where it is not defined."""
    if value.value is None:
        return "-"
    plus = "+" if sign else ""
    text = f"{value.value:{plus}.{digits}f}"
    if value.low is None or value.high is None:
        return text
    return f"{text} ({value.low:{plus}.{digits}f} to {value.high:{plus}.{digits}f})"


def _with_error(row: Row, arm: str, between: str) -> str:
    value: Interval = getattr(row.both, arm)
    error = row.rpg_error if arm == "rpg" else row.vanilla_error
    text = "-" if value.value is None else f"{value.value:.3f}"
    return text if error is None else f"{text}{between}{error:.3f}"


def _arrow(row: Row, up: str, down: str) -> str:
    arrow = up if row.higher_is_better else down
    return f"{row.task} ({arrow})" if arrow else row.task


def _full(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _safe_cell(text: str) -> str:
    """A spreadsheet takes a cell that begins with one of these for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {letter: "\\" + letter for letter in "&%$#_{}"}
    return "".join(special.get(letter, letter) for letter in text)


def _tex_number(value: float | None) -> str:
    return "--" if value is None else f"${value:+.1f}$"


def _tex_interval(value: Interval) -> str:
    return "--" if value.low is None or value.high is None else f"$[{value.low:+.1f}, {value.high:+.1f}]$"
