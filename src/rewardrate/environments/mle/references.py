"""What is known of a task's reference scripts without its data: the reward and the seconds of each, for a plan."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from rewardrate.attempt import FLOOR_SECONDS
from rewardrate.environments.mle.folder import shipped
from rewardrate.environments.mle.rewards import Kind, gain
from rewardrate.environments.mle.task import Reference, Task
from rewardrate.errors import InputError


def baselines() -> dict[str, float]:
    """Task -> score of its sample submission, for the tasks that come with the package (tasks/baselines.csv)."""
    folders = {folder.parent for folder in shipped().values()}
    rows = [row for folder in folders for row in csv.DictReader((folder / "baselines.csv").read_text().splitlines())]
    return {row["task"]: float(row["score"]) for row in rows}


def measured_scripts(task: Task, kind: Kind, cores: int) -> list[tuple[float, float]]:
    """(reward, seconds) of every reference script that was measured, as the environment would give them.

    On one core a script takes its CPU seconds, if those are more. A task that does not come with the package must be
    prepared, for the score of its sample submission.
    """
    known = [row for row in task.references if row.seconds is not None]
    if len(known) < 2:
        remedy = f"rewardrate tasks validate {task.handle} --measure, or give a run folder"
        raise InputError("task", task.handle, "fewer than two of its reference scripts have measured seconds", remedy)
    return list(zip(_rewards(task, known, kind), [_seconds(row, cores) for row in known], strict=True))


def _seconds(row: Reference, cores: int) -> float:
    wall, cpu = row.seconds or 0.0, row.cpu_seconds or 0.0
    return max(FLOOR_SECONDS, wall, cpu if cores == 1 else 0.0)


def _rewards(task: Task, known: Sequence[Reference], kind: Kind) -> list[float]:
    if kind == "gain" and task.folder in shipped().values():
        zero = baselines()[task.id]
        return [gain(row.score, zero, task.best_reference, task.direction) for row in known]
    return [task.reward_of(row.score, kind) for row in known]
