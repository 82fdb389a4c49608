"""The 22 tasks of MLE-Bench Lite as data (recipes/mle-bench-lite.toml), and leaderboards read from files.

Nothing here imports MLE-Bench: the table and the leaderboards can be read on a machine that does not have it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rewardrate import config
from rewardrate.config import AtLeast
from rewardrate.environments.mle.rewards import direction_of
from rewardrate.errors import InputError, did_you_mean

RECIPE = "mle-bench-lite"
POINTER = b"version https://git-lfs"
LeaderboardState = Literal["real", "pointer", "missing", "unreadable", "unknown"]


@dataclass(frozen=True)
class LiteTask:
    """One row of the paper's table."""

    id: str
    "MLE-Bench's name of the task."
    goal: str
    "What is to be predicted, in one sentence for the prompt."
    modality: Literal["tabular", "text", "image", "audio"]
    metric: str
    "The metric in words."
    grader: str
    "The name MLE-Bench gives its grader; a task whose grader has another name is refused."
    direction: Literal["maximize", "minimize"]
    reward: Literal["gain", "raw", "percentile"]
    "What a valid submission earns; the paper: raw where higher is better, percentile where lower is."
    limit_seconds: Annotated[float, AtLeast(1)] = 600.0
    size_gb: Annotated[float, AtLeast(0)] = 0.0
    "Size of the download."
    rules_open: bool = True
    "Whether Kaggle still lets one accept the rules, without which nothing is downloaded."
    leaks_label: bool = False
    "Whether the public data give the answers away."
    note: str = ""

    @property
    def uses_log_loss(self) -> bool:
        """Whether its grader calls scikit-learn's log_loss, whose arguments change in 1.11."""
        return "log-loss" in self.grader


@dataclass(frozen=True)
class Table:
    """A recipe that lists MLE-Bench tasks."""

    tasks: tuple[LiteTask, ...]
    source: str = ""
    "The version of MLE-Bench that the table was written down from."


def tasks(recipe: str = RECIPE) -> tuple[LiteTask, ...]:
    """Every task that a recipe lists. Raises InputError for an id that is no plain name, or stands twice."""
    found = config.load(Table, config.find_recipe(recipe)).tasks
    seen: set[str] = set()
    for task in found:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", task.id):
            raise InputError("tasks.id", task.id, "it must be letters, digits, dots and dashes: it names a folder")
        if task.id in seen:
            raise InputError("tasks.id", task.id, f"it stands twice in {recipe}")
        seen.add(task.id)
    return found


def find(id: str, recipe: str = RECIPE) -> LiteTask:
    """The task of that id; an unknown one is an InputError with the nearest spelling."""
    known = {task.id: task for task in tasks(recipe)}
    if id not in known:
        raise InputError("task", id, f"there is no such task in {recipe}", did_you_mean(id, known))
    return known[id]


def table(recipe: str = RECIPE) -> str:
    """The recipe as a Markdown table, for docs/mle-bench.md."""
    lines = ["| task | metric | better | reward | limit | GB | note |", "|---|---|---|---|---:|---:|---|"]
    for task in tasks(recipe):
        better = "higher" if task.direction == "maximize" else "lower"
        limit = f"{task.limit_seconds:g} s"
        lines.append(
            f"| {task.id} | {task.metric} | {better} | {task.reward} | {limit} | {task.size_gb:g} | {task.note} |"
        )
    return "\n".join(lines)


def find_leaderboard(id: str, folder: Path) -> Path | None:
    """The leaderboard of a task in a folder of leaderboards; None if it has none.

    Tried in turn: ID.csv; ID/info/private_leaderboard.csv and ID/private_leaderboard.csv (MLE-Dojo's
    mledojo/competitions); ID/leaderboard.csv (mlebench/competitions of a checkout after `git lfs pull`).
    """
    places = (
        f"{id}.csv",
        f"{id}/info/private_leaderboard.csv",
        f"{id}/private_leaderboard.csv",
        f"{id}/leaderboard.csv",
    )
    return next((folder / place for place in places if (folder / place).is_file()), None)


def leaderboard_state(path: Path | None) -> LeaderboardState:
    """What stands at a leaderboard's path: real scores, a Git-LFS pointer, nothing, or something unreadable."""
    if path is None or not path.is_file():
        return "missing"
    try:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                return "pointer"
        _scores(path)
    except (OSError, InputError):
        return "unreadable"
    return "real"


def read_leaderboard(path: Path, direction: Literal["maximize", "minimize"]) -> tuple[float, ...]:
    """Scores of a leaderboard file, best first: a CSV with a column `score` and, if its rows are unsorted, `rank`.

    Rows without a score are left out. The order of the file must agree with `direction`: MLE-Bench derives the
    direction from that order, so a file that says the opposite would turn the reward round.
    """
    scores = _scores(path)
    implied = direction_of(scores)
    if implied not in (None, direction):
        raise InputError(
            "leaderboard", str(path), f"its order says {implied}, the task says {direction}", "best score first, please"
        )
    return tuple(sorted(scores, reverse=direction == "maximize"))


def _scores(path: Path) -> list[float]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if "score" not in (reader.fieldnames or ()):
            raise InputError("leaderboard", str(path), "it has no column named score", "columns rank,score are enough")
        rows = [(_rank(row.get("rank"), place), row["score"], place) for place, row in enumerate(reader, start=1)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError("leaderboard", str(path), f"it cannot be read as CSV ({error})") from None
    scores = [_score(text, path, place) for _, text, place in sorted(rows, key=lambda row: row[0])]
    present = [score for score in scores if score is not None]
    if not present:
        raise InputError("leaderboard", str(path), "it holds no score")
    return present


def _rank(text: str | None, place: int) -> float:
    try:
        rank = float(text) if text else math.nan
    except (TypeError, ValueError):
        rank = math.nan
    return rank if math.isfinite(rank) else float(place)


def _score(text: str | None, path: Path, place: int) -> float | None:
    if text is None or text.strip().lower() in ("", "nan"):
        return None
    try:
        score = float(text)
    except ValueError:
        score = math.inf
    if not math.isfinite(score):
        raise InputError("leaderboard", str(path), f"score {text!r} in row {place} is not a finite number")
    return score
