"""Runs of a race: who crossed the target within a time budget, and by how much. Paper, section 4.3 ("85.7 %").

A crossing is a valid attempt with a validation loss at or below the target; seeds do not count. Its time is what its
chain had spent when it ended. At a budget T:

    margin(T)    = target - lowest loss among the crossings by T      (0 where there is none)
    improvement  = 100 (margin of rpg - margin of vanilla) / margin of vanilla, margins averaged over repetitions
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import nan
from typing import Any

from rewardrate.environments.speedrun import seeds
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.errors import InputError
from rewardrate.reports.document import duel, escape, fold, table, tile
from rewardrate.reports.redaction import redacted
from rewardrate.reports.run import Experiment, Run
from rewardrate.runlog import AttemptRow

DIFF_LINES = 400


@dataclass(frozen=True)
class Crossing:
    """A valid attempt at or below the target."""

    attempt: int
    step: int
    chain: int
    loss: float
    margin: float
    seconds: float
    "Of the attempt itself."
    spent: float
    "Of its chain, with this attempt: the budget at which it is there."


def crossings(attempts: Sequence[AttemptRow], target: float) -> list[Crossing]:
    """Every crossing of a run, in the order in which budgets reach them."""
    spent: dict[int, float] = {}
    found = []
    for one in sorted(attempts, key=lambda attempt: (attempt.step, attempt.row)):
        if not one.charged:
            continue
        spent[one.chain] = spent.get(one.chain, 0.0) + one.seconds
        if one.valid and one.score is not None and one.score <= target:
            found.append(
                Crossing(
                    attempt=one.id,
                    step=one.step,
                    chain=one.chain,
                    loss=one.score,
                    margin=target - one.score,
                    seconds=one.seconds,
                    spent=spent[one.chain],
                )
            )
    return sorted(found, key=lambda crossing: (crossing.spent, crossing.attempt))


def best(found: Sequence[Crossing], budget: float) -> Crossing | None:
    """The crossing with the lowest loss by a budget; of equals the quicker one."""
    return min(
        (one for one in found if one.spent <= budget),
        key=lambda one: (one.loss, one.seconds, one.attempt),
        default=None,
    )


def margin(found: Sequence[Crossing], budget: float) -> float:
    """How far below the target the best crossing by a budget lies; 0 where there is none."""
    chosen = best(found, budget)
    return 0.0 if chosen is None else chosen.margin


def improvement(rpg: Sequence[float], vanilla: Sequence[float]) -> float | None:
    """Percent by which the mean margin of rpg exceeds that of vanilla; None where vanilla has no margin."""
    if not rpg or not vanilla:
        return None
    ours, theirs = sum(rpg) / len(rpg), sum(vanilla) / len(vanilla)
    return 100 * (ours - theirs) / theirs if theirs > 0 else None


def target_of(run: Run) -> float | None:
    """The loss to reach; None for a run that is no race, or whose record does not say."""
    try:
        return float(run.about["target_loss"]) if "race" in run.about else None
    except (KeyError, ValueError):
        return None


def section(experiments: Sequence[Experiment]) -> str:
    """The part of the page about races; empty where there is none."""
    parts = [_race(experiment) for experiment in experiments if target_of(experiment.runs[0]) is not None]
    return f'<section id="race"><h2>Crossings</h2>{"".join(parts)}</section>' if parts else ""


def _race(experiment: Experiment) -> str:
    target, budget = target_of(experiment.runs[0]) or 0.0, experiment.final
    found = {id(run): crossings(run.attempts, target) for run in experiment.runs}
    rows = [[run.label, run.seed, *_cells(found[id(run)], run, budget)] for run in experiment.runs]
    margins = {
        arm: [margin(found[id(run)], budget) for run in experiment.arms.get(arm, ())] for arm in ("rpg", "vanilla")
    }
    percent = improvement(margins["rpg"], margins["vanilla"])
    shown = "not defined" if percent is None else f"{percent:+.1f} %"
    tiles = [tile(f"{target:g}", f"{experiment.task}: the loss to reach"), tile(f"{budget:.0f} s", "T, for each chain")]
    if all(margins.values()):
        ours, theirs = (f"{sum(margins[arm]) / len(margins[arm]):.4f}" for arm in ("rpg", "vanilla"))
        seeds_of = min(map(len, margins.values()))
        note = f"{shown} of vanilla's, n = {seeds_of} seed{'s' * (seeds_of > 1)}, no interval"
        tiles.append(duel("margin below the target at T", ("rpg", ours), ("vanilla", theirs), note))
    head = ["arm", "seed", "crossings", "by T", "first at", "lowest loss by T", "margin", "fastest crossing"]
    words = (
        "A crossing is a valid attempt at or below the target; seeds do not count. By T means: its chain had spent no "
        "more than T seconds when it ended. The margin is the target less the lowest loss by T, 0 without a crossing."
    )
    diffs = "".join(_diff(run, best(found[id(run)], budget)) for run in experiment.runs[:8])
    listed = table(head, rows, right=range(1, len(head)))
    return f'<div class="tiles">{"".join(tiles)}</div>{listed}<p class="soft">{escape(words)}</p>{diffs}'


def _cells(found: Sequence[Crossing], run: Run, budget: float) -> list[str]:
    by = [one for one in found if one.spent <= budget]
    chosen = best(found, budget)
    quickest = min((one.seconds for one in by), default=None)
    return [
        f"{len(found)} of {len(run.charged)}",
        str(len(by)),
        f"{found[0].spent:.1f} s" if found else "-",
        "-" if chosen is None else f"{chosen.loss:.4f}",
        f"{margin(found, budget):.4f}",
        "-" if quickest is None else f"{quickest:.1f} s",
    ]


def _diff(run: Run, chosen: Crossing | None) -> str:
    """What the best crossing changed in its parent, or in the seed it came from."""
    if chosen is None:
        return ""
    row = next(attempt for attempt in run.attempts if attempt.id == chosen.attempt)
    name, before = _parent(run, row)
    lines = list(
        difflib.unified_diff(before.splitlines(), row.code.splitlines(), name, f"attempt {row.id}", lineterm="")
    )
    text = "\n".join(lines[:DIFF_LINES])
    head = f"{run.label} {run.seed}: the best crossing (attempt {row.id}, {chosen.loss:.4f} in {chosen.seconds:.1f} s)"
    return fold(f"{head}, and what it changed in {name}", f'<pre tabindex="0">{escape(redacted(text))}</pre>')


def _parent(run: Run, row: AttemptRow) -> tuple[str, str]:
    """Name and script of what an attempt was made from."""
    for attempt in run.attempts:
        if attempt.id == row.parent:
            return f"attempt {attempt.id}", attempt.code
    if not row.seed:
        base = run.folder / "baseline.py"
        return ("the race's own script", base.read_text(encoding="utf-8")) if base.is_file() else ("nothing", "")
    seed, name = kept_seed(run, row.seed), f"seed {redacted(row.seed)}"
    return (name, seed.code) if seed is not None else (f"{name} (its script is gone)", "")


def kept_seed(run: Run, name: str) -> Seed | None:
    """A seed of a run, from the copy in the run's folder; None when it is gone or broken."""
    if name in (".", "..") or set(name) & set("/\\\0"):
        return None  # a damaged record must not make us read elsewhere
    try:
        return seeds.read_one(run.folder / "seeds" / name)
    except (InputError, OSError):
        return None


def with_seeds(run: Run) -> tuple[list[str], list[AttemptRow]]:
    """Names of the seeds that attempts were made from, and all rows: those seeds first, then the attempts.

    Seeds are numbered -1, -2, ... in the order of their names; their children name them as parents.
    """
    names = sorted({row.seed for row in run.attempts if row.parent is None and row.seed})
    numbers = {name: -place for place, name in enumerate(names, start=1)}
    rows = [_seed_row(run, name, number) for name, number in numbers.items()]
    for row in run.attempts:
        number = numbers.get(row.seed) if row.parent is None else None
        rows.append(row if number is None else replace(row, parent=number))
    return [redacted(name) for name in names], rows


def _seed_row(run: Run, name: str, number: int) -> AttemptRow:
    seed = kept_seed(run, name)
    record = Record() if seed is None else seed.record
    blank: dict[str, Any] = {field.name: "" for field in fields(AttemptRow)}
    numbers = {"tokens": 0, "generation_seconds": 0.0, "bonus": 0.0, "finished": 0.0, "relative_reward": None}
    unknown = {"reward": nan, "wall_seconds": 0.0, "cpu_seconds": 0.0, "peak_memory_bytes": 0, "trains": None}
    return AttemptRow(
        **blank
        | numbers
        | unknown
        | {
            "id": number,
            "step": 0,
            "row": 0,
            "chain": 0,
            "parent": None,
            "contaminated": False,
            "status": "seed",
            "rank_key": None,
        }
        | {"valid": record.valid, "score": record.loss, "seconds": record.seconds if record.valid else nan}
        | {"message": record.message or record.about, "code": "" if seed is None else seed.code}
    )
