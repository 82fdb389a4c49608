"""The tables of a comparison as Markdown, LaTeX and CSV, and everything as JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rewardrate.reports.comparison import WORDS, ComparisonResult, Contrast, Pooled
from rewardrate.reports.files import FORMATS
from rewardrate.reports.survey import BlockState, Survey
from rewardrate.reports.tables import full, interval, safe_cell, tex

Rows = Sequence[Sequence[str]]
HEAD = ("difference of", "quantity", "arm", "other", "difference (95 %)", "ahead : behind", "sign test p")
FIELDS = ("arm", "against", "quantity", "arm_mean", "against_mean", "difference", "low", "high",
          "tasks", "blocks", "ahead", "behind", "p")  # fmt: skip


def pooled_rows(contrasts: Sequence[Contrast]) -> list[list[str]]:
    """Every quantity of every contrast, in words: the primary metric first."""
    return [
        [
            contrast.name,
            WORDS[found.name].partition(" (")[0],
            *("-" if mean is None else f"{mean:.3f}" for mean in (found.arm, found.against)),
            interval(found.difference, sign=True),
            f"{found.wins} : {found.losses} of {len(found.tasks)}",
            f"{found.p:.2g}",
        ]
        for contrast in contrasts
        for found in contrast.quantities.values()
    ]


def progress_rows(survey: Survey) -> list[list[str]]:
    """Every block: how far each arm is, and whether it counts."""
    return [[str(one.block), *(f"{one.used[arm]:.0%}" for arm in survey.plan.arms), standing(one)]
            for one in survey.blocks]  # fmt: skip


def standing(one: BlockState) -> str:
    """complete, begun or not begun."""
    return "complete" if one.complete else "begun" if any(one.used.values()) else "not begun"


def markdown(head: Sequence[str], rows: Rows) -> str:
    """A table for a README."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def latex(head: Sequence[str], rows: Rows) -> str:
    """A table for a paper (booktabs)."""
    body = [" & ".join(map(tex, line)) + r" \\" for line in (head, *rows)]
    lines = [rf"\begin{{tabular}}{{{'l' * 2}{'r' * (len(head) - 2)}}}", r"\toprule", body[0], r"\midrule", *body[1:]]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def comma_separated(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for programs, at full precision; an empty cell is not defined."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return full(value) if isinstance(value, float) else safe_cell(str(value))


def _flat(contrast: Contrast, found: Pooled) -> list[Any]:
    difference, blocks = found.difference, sum(map(len, found.tasks.values()))
    means = [found.arm, found.against, difference.value, difference.low, difference.high]
    tasks = [len(found.tasks), blocks, found.wins, found.losses, found.p]
    return [contrast.arm, contrast.against, found.name, *means, *tasks]


def texts(result: ComparisonResult) -> Mapping[str, str]:
    """File name -> content of every table."""
    rows = pooled_rows(result.contrasts)
    flat = [_flat(contrast, found) for contrast in result.contrasts for found in contrast.quantities.values()]
    runs = [[Path(block.task).name, block.seed, arm, *found.values()] for (block, arm), found in result.runs.items()]
    names = next(iter(result.runs.values())).keys()
    made = {
        "pooled.md": markdown(HEAD, rows),
        "pooled.tex": latex(HEAD, rows),
        "pooled.csv": comma_separated(FIELDS, flat),
        "runs.csv": comma_separated(("task", "seed", "arm", *names), runs),
    }
    formats: Mapping[str, Callable[..., str]] = {f".{name.partition('.')[2]}": write for name, write in FORMATS.items()}
    for contrast in result.contrasts:
        for end, write in formats.items():
            made[f"tasks-{contrast.arm}-{contrast.against}{end}"] = write(contrast.table)
    return made


def as_table(survey: Survey, result: ComparisonResult | None) -> dict[str, Any]:
    """Everything for programs; without a result how far the comparison is, and nothing of the arms."""
    found: dict[str, Any] = {
        "complete": survey.finished,
        "blocks": {"complete": len(survey.complete), "needed": survey.plan.needed, "planned": len(survey.blocks)},
        "T": survey.final,
        "plan": {"sha256": survey.state["sha256"], "frozen": survey.state["frozen"]},
        "deviations": list(survey.deviations),
    }
    if result is None:
        return found
    found["runs"] = [
        {"task": Path(block.task).name, "seed": block.seed, "arm": arm} | {name: _number(one[name]) for name in one}
        for (block, arm), one in result.runs.items()
    ]
    found["contrasts"] = [
        {
            "arm": contrast.arm,
            "against": contrast.against,
            "primary": contrast.primary.name,
            "improvement_percent": {"mean": asdict(contrast.table.mean), "trimmed": asdict(contrast.table.trimmed)},
            "without_deviations": contrast.without_deviations and asdict(contrast.without_deviations),
            "by_start": contrast.by_start and asdict(contrast.by_start),
            "quantities": {name: _pooled(one) for name, one in contrast.quantities.items()},
        }
        for contrast in result.contrasts
    ]
    return found


def _pooled(found: Pooled) -> dict[str, Any]:
    return {
        "arm": found.arm,
        "against": found.against,
        "difference": asdict(found.difference),
        "ahead": found.wins,
        "behind": found.losses,
        "p": found.p,
        "tasks": {
            task: {"difference": found.by_task[task], "seeds": {str(seed): value for seed, value in seeds.items()}}
            for task, seeds in found.tasks.items()
        },
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
