"""Compare the rewards of a run folder with those that verl says it trained on (`trainer.rollout_data_dir`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rewardrate.errors import InputError
from rewardrate.runlog import RunLog


@dataclass(frozen=True)
class Agreement:
    """How well two accounts of a run agree."""

    steps: int
    attempts: int
    "Those that were charged; verl's padding carries no reward."
    difference: float
    "The largest between two rewards of one attempt."


def trained_on(dumps: Path, step: int) -> list[tuple[str, float]]:
    """(Reply, reward) of every row of a step, sorted, as verl wrote them; its padding is left out."""
    lines = (dumps / f"{step}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return sorted((row["output"], float(row["score"])) for row in rows if not row["uid"].startswith("pad"))


def agreement(run: Path, dumps: Path) -> Agreement:
    """Compare every committed step of a run folder. Raises InputError where they tell of different attempts."""
    attempts, largest, steps = 0, 0.0, 0
    with RunLog.open(run, read_only=True) as log:
        rows = list(log.attempts())
        steps = log.last_step()
    for step in range(1, steps + 1):
        mine = [row for row in rows if row.step == step and row.charged]
        ours = sorted((row.reply, (row.relative_reward or 0.0) + row.bonus) for row in mine)
        theirs = trained_on(dumps, step)
        if [reply for reply, _ in ours] != [reply for reply, _ in theirs]:
            rule = f"its replies are not those of {dumps / f'{step}.jsonl'}"
            raise InputError("run", str(run), f"step {step}: {rule}", "name the two folders of one run")
        attempts += len(ours)
        largest = max([largest, *(abs(a - b) for (_, a), (_, b) in zip(ours, theirs, strict=True))])
    return Agreement(steps, attempts, largest)
