"""Data of the page's tree of attempts: every attempt's numbers and parent, and the packed texts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from rewardrate.reports.redaction import redacted
from rewardrate.reports.run import Run
from rewardrate.reports.speedrun import with_seeds
from rewardrate.reports.texts import CODE, MESSAGE, OUTPUT, PackedTexts, Packer, squeeze
from rewardrate.runlog import AttemptRow

TEXT_BYTES = 7_000_000
"Limit of scripts, messages and output on the page."
ATTEMPTS = 120_000
"Attempts whose numbers are on the page; runs beyond are left out of the tree."


def lineage(runs: Sequence[Run]) -> tuple[dict[str, str], list[str]]:
    """Name -> packed data for the page, and a note for everything that had to be left out."""
    notes: list[str] = []
    shown: list[Run] = []
    total = 0
    for run in runs:
        total += len(run.attempts)
        if total > ATTEMPTS and shown:
            notes.append(f"The tree shows the first {len(shown)} runs; report the others alone to see theirs.")
            break
        shown.append(run)
    seeded = [with_seeds(run) for run in shown]
    ranked = [(place, attempt) for place, (_, rows) in enumerate(seeded) for attempt in rows]
    parents = [{attempt.parent for attempt in rows} for _, rows in seeded]
    ranked.sort(key=lambda item: _rank(item[1], parents[item[0]]))
    pack, numbers, kept = _fit(ranked)
    if kept < len(ranked):
        left = f"{len(ranked) - kept:,} of {len(ranked):,} attempts are here without their script"
        notes.append(f"To keep this page small, {left}, the lowest-ranked ones; the run log has them all.")
    tables = [_columns(run, *seeded[place], place, numbers) for place, run in enumerate(shown)]
    table = json.dumps(tables, allow_nan=False, separators=(",", ":"))
    return {"runs": squeeze(table.encode()), "lines": pack.lines, "texts": pack.texts}, notes


def _rank(attempt: AttemptRow, parents: set[int | None]) -> tuple[bool, bool, float, int]:
    """Those that others descend from first, then valid ones, best first: the order in which scripts are kept."""
    return (attempt.id not in parents, not attempt.valid, -attempt.rank if attempt.id > 0 else 0.0, attempt.id)


def _fit(
    ranked: Sequence[tuple[int, AttemptRow]],
) -> tuple[PackedTexts, dict[tuple[int, int], tuple[int, int, int]], int]:
    """As many attempts' texts as fit, the first of `ranked` first: the pack, the numbers of each, how many."""
    kept = len(ranked)
    while True:
        packer = Packer()
        numbers = {}
        for place, attempt in sorted(ranked[:kept], key=lambda item: (item[0], item[1].id)):
            numbers[place, attempt.id] = (
                packer.number(attempt.code, CODE),
                packer.number(redacted(attempt.message), MESSAGE),
                packer.number(redacted(attempt.output), OUTPUT, tail=True),
            )
        pack = packer.pack()
        if pack.size <= TEXT_BYTES or kept == 0:
            return pack, numbers, kept
        kept = int(kept * min(0.9, 0.95 * TEXT_BYTES / pack.size))


def _columns(
    run: Run,
    seeds: Sequence[str],
    rows: Sequence[AttemptRow],
    place: int,
    numbers: dict[tuple[int, int], tuple[int, int, int]],
) -> dict[str, Any]:
    """A run as columns; its seeds (of a race) come first and have negative numbers."""
    statuses = sorted({row.status for row in rows})
    texts = [numbers.get((place, row.id), (-1, -1, -1)) for row in rows]
    best = run.best
    return {
        "name": run.folder.name,
        "arm": run.label,
        "seed": run.seed,
        "task": run.task,
        "up": run.higher_is_better is not False,
        "best": None if best is None else best.id,
        "statuses": statuses,
        "seeds": list(seeds),
        "id": [row.id for row in rows],
        "step": [row.step for row in rows],
        "row": [row.row for row in rows],
        "chain": [row.chain for row in rows],
        "parent": [row.parent for row in rows],
        "valid": [int(row.valid) for row in rows],
        "reward": [_short(row.reward) for row in rows],
        "score": [_short(row.score) for row in rows],
        "seconds": [_short(row.seconds) for row in rows],
        "relative": [_short(row.relative_reward) for row in rows],
        "status": [statuses.index(row.status) for row in rows],
        "tokens": [row.tokens for row in rows],
        "flags": [int(row.contaminated) + 2 * (row.trains is False) for row in rows],
        "code": [text[0] for text in texts],
        "message": [text[1] for text in texts],
        "output": [text[2] for text in texts],
    }


def _short(value: float | None) -> float | str | None:
    """Six digits; infinity as a word, because JSON has none."""
    if value is None or math.isnan(value):
        return None
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)
