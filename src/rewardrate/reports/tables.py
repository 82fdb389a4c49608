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
from rewardrate.reports.evaluation import TOTALS, Comparison, Interval, Metric, Paired, Value, over_tasks
from rewardrate.reports.run import Experiment

FIELDS = (
    "task", "metric", "better", "repetitions", "T_seconds", "rpg", "rpg_se", "vanilla", "vanilla_se",
    "difference", "difference_low", "difference_high", "improvement_percent", "improvement_low", "improvement_high",
    *(f"{name}{part}" for name in (*TOTALS, "held_out_reward")
      for part in ("_rpg", "_vanilla", "_difference", "_difference_low", "_difference_high")),
)  # fmt: skip


@dataclass(frozen=True)
class TaskRow:
    """One task."""

    task: str
    metric: Metric
    higher_is_better: bool
    repetitions: int
    both: Comparison
    rpg_error: float | None
    "Standard error over repetitions; None with fewer than two."
    vanilla_error: float | None
    efficiency: Mapping[str, Paired]
    "Reward per second and what else the arms' time brought, by name (`evaluation.efficiency`)."

    @property
    def verdict(self) -> str:
        """win, loss or tie; "clear" where the paired interval of the difference leaves out 0."""
        improvement, difference = self.both.improvement.value, self.both.difference
        gain = improvement if improvement is not None else difference.value
        if gain is None or gain == 0:
            return "tie"
        return ("clear " if difference.sign else "") + ("win" if gain > 0 else "loss")


@dataclass(frozen=True)
class TaskTable:
    """Every task that has both arms, and what they come to together."""

    rows: tuple[TaskRow, ...]
    mean: Interval
    "Mean over tasks of the relative improvement in percent."
    trimmed: Interval
    "The same after dropping the best and the worst task."
    left_out: tuple[str, ...]
    "Tasks without a pair of runs."
    arm: str = "rpg"
    baseline: str = "vanilla"
    "What the arm is compared with."

    @property
    def without_improvement(self) -> tuple[str, ...]:
        """Tasks that the means over tasks leave out: the baseline has 0 there, so a percentage of it is not defined."""
        return tuple(row.task for row in self.rows if row.both.improvement.value is None)

    def count(self, word: str) -> int:
        """Tasks whose verdict contains the word: win, loss, clear win, tie."""
        return sum(word in row.verdict for row in self.rows)


def table(
    experiments: Sequence[Experiment], metric: Metric | None = None, value: Value = "current", arm: str | None = None
) -> TaskTable:
    """The table by reward or by score; without a metric, by score where its direction is known, as in the paper.

    InputError if no task has a run of each arm.
    """
    arm = arm or next((one.first for one in experiments if one.pairs), "rpg")
    rows: list[TaskRow] = []
    left_out = []
    for experiment in experiments:
        chosen: Metric = metric or experiment.metrics[-1]
        both = experiment.compare(chosen, value, arm) if chosen in experiment.metrics else None
        if both is None:
            left_out.append(experiment.task)
            continue
        up = chosen == "reward" or bool(experiment.higher_is_better)
        count = len(experiment.contrasts[arm])
        rows.append(
            TaskRow(
                task=experiment.task,
                metric=chosen,
                higher_is_better=up,
                repetitions=count,
                both=both,
                rpg_error=standard_error(both.rpg_ends),
                vanilla_error=standard_error(both.vanilla_ends),
                efficiency=experiment.efficiency(arm),
            )
        )
    if not rows:
        rule = "no task has a finished run of each arm" + (f" that can be compared by {metric}" if metric else "")
        raise InputError("runs", "rpg and vanilla", rule, "train --arm both")
    known: Mapping[str, Comparison] = {row.task: row.both for row in rows}
    mean, trimmed = (over_tasks(known, trim=trim) for trim in (0, 1))
    return TaskTable(tuple(rows), mean, trimmed, tuple(left_out), arm=arm, baseline=experiments[0].baseline)


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """Standard error of a mean over repetitions: standard deviation (n - 1) over the root of n; None below two."""
    known = [float(value) for value in values if math.isfinite(value)]
    return float(np.std(known, ddof=1) / math.sqrt(len(known))) if len(known) > 1 else None


def markdown(found: TaskTable) -> str:
    """The table for a README or an issue."""
    lines = [
        f"| task | n | T (s) | {found.arm} | {found.baseline} | better by (95 %) | % improvement (95 %) | "
        "reward per second, difference (95 %) |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in found.rows:
        cells = [_arrow(row, "↑", "↓").replace("|", "\\|"), str(row.repetitions), f"{row.both.final:.0f}"]
        for arm in ("rpg", "vanilla"):
            text = _with_error(row, arm, " ± ")
            cells.append(f"**{text}**" if arm == leader(row) else text)
        cells += [
            interval(row.both.advantage, sign=True),
            interval(row.both.improvement, 1, sign=True),
            per_second(row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *summary(found)]
    return "\n".join(lines) + "\n"


def latex(found: TaskTable) -> str:
    """The table for a paper (booktabs)."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        rf"Task & {tex(found.arm)} & {tex(found.baseline)} & \% improv. & 95\,\% interval \\",
        r"\midrule",
    ]
    for row in found.rows:
        cells = [tex(_arrow(row, "", "")) + (r" $(\uparrow)$" if row.higher_is_better else r" $(\downarrow)$")]
        for arm in ("rpg", "vanilla"):
            text = _with_error(row, arm, r" $\pm$ ")
            cells.append(rf"\textbf{{{text}}}" if arm == leader(row) else text)
        cells += [_tex_number(row.both.improvement.value), _tex_interval(row.both.improvement)]
        lines.append(" & ".join(cells) + r" \\")
    lines.append(r"\midrule")
    for name, value in (("mean", found.mean), ("mean without the best and the worst", found.trimmed)):
        lines.append(f"{name} & & & {_tex_number(value.value)} & {_tex_interval(value)} " + r"\\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def comma_separated(found: TaskTable) -> str:
    """The table for programs, at full precision; an empty cell is not defined."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in found.rows:
        both = row.both
        writer.writerow([
            safe_cell(row.task), row.metric, "higher" if row.higher_is_better else "lower", row.repetitions,
            *(full(value) for value in (
                both.final, both.rpg.value, row.rpg_error, both.vanilla.value, row.vanilla_error,
                both.difference.value, both.difference.low, both.difference.high,
                both.improvement.value, both.improvement.low, both.improvement.high,
                *(number for name in (*TOTALS, "held_out_reward") for number in _flat(row.efficiency.get(name))),
            )),
        ])  # fmt: skip
    return out.getvalue()


def summary(found: TaskTable) -> list[str]:
    """Sentences under the table."""
    count = len(found.rows) - len(found.without_improvement)
    tasks = f"{count} task{'s' if count != 1 else ''}"
    lines = [f"Mean improvement over {tasks}: {interval(found.mean, 1, sign=True)} %."]
    if found.trimmed.value is not None:
        lines.append(f"Without the best and the worst task: {interval(found.trimmed, 1, sign=True)} %.")
    if found.without_improvement:
        none = ", ".join(found.without_improvement)
        lines.append(f"Not in these means, because {found.baseline} has 0 there: {none}.")
    wins, losses = found.count("win"), found.count("loss")
    clear = found.count("clear win"), found.count("clear loss")
    lines.append(
        f"{found.arm} is ahead on {wins} ({clear[0]} clearly) and behind on {losses} ({clear[1]} clearly); "
        f"sign test p = {sign_test(wins, losses):.2g}."
    )
    if min(row.repetitions for row in found.rows) < 2:
        lines.append("With one seed, variation between training runs is not included in an interval.")
    if found.left_out:
        lines.append(f"Left out, because an arm is missing: {', '.join(found.left_out)}.")
    return lines


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of so uneven a split, if each task were as likely to be a win as a loss; ties do not count."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def per_second(row: TaskRow) -> str:
    """The difference in reward per second, with its interval."""
    found = row.efficiency.get("reward_per_second")
    return "-" if found is None else interval(found.difference, sign=True)


def leader(row: TaskRow) -> str:
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


def _with_error(row: TaskRow, arm: str, between: str) -> str:
    value: Interval = getattr(row.both, arm)
    error = row.rpg_error if arm == "rpg" else row.vanilla_error
    text = "-" if value.value is None else f"{value.value:.3f}"
    return text if error is None else f"{text}{between}{error:.3f}"


def _arrow(row: TaskRow, up: str, down: str) -> str:
    arrow = up if row.higher_is_better else down
    return f"{row.task} ({arrow})" if arrow else row.task


def _flat(found: Paired | None) -> list[float | None]:
    if found is None:
        return [None] * 5
    difference = found.difference
    return [found.rpg.value, found.vanilla.value, difference.value, difference.low, difference.high]


def full(value: float | None) -> str:
    """A number with every digit; empty where it is not defined."""
    return "" if value is None else repr(float(value))


def safe_cell(text: str) -> str:
    """A spreadsheet takes a cell that begins with one of these for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def tex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    return "".join(special.get(character, character) for character in text)


def _tex_number(value: float | None) -> str:
    return "--" if value is None else f"${value:+.1f}$"


def _tex_interval(value: Interval) -> str:
    return "--" if value.low is None or value.high is None else f"$[{value.low:+.1f}, {value.high:+.1f}]$"
