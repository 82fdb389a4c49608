"""A task: what scripts may see, what only the grader sees, and how a submission is judged."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardrate.environments.mle import rewards, submission
from rewardrate.environments.mle.rewards import Direction, Kind
from rewardrate.environments.mle.task_process import CodeEnded, TaskCode
from rewardrate.environments.sandboxed import Split
from rewardrate.errors import InfrastructureError, InputError

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
"Beside the prepared data: the digests of what was made, and of what made it."


@dataclass(frozen=True)
class Grade:
    """The grader's verdict on one submission."""

    valid: bool
    score: float | None
    message: str
    "Why it was refused; empty when it was not."


@dataclass(frozen=True)
class Source:
    """Where a task's data come from, and which installed files would give the answers away."""

    package: str = ""
    data: str = ""
    licence: str = ""
    origin: str = ""
    hide: tuple[str, ...] = ()
    "Below site-packages: unreadable for scripts, because the answers can be had from there."


@dataclass(frozen=True)
class Reference:
    """One row of the leaderboard: a script of ours, run and timed by us."""

    score: float
    script: str = ""
    report: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Task:
    """One machine-learning task, as its folder states it. Data are there after `prepare`."""

    id: str
    name: str
    folder: Path
    goal: str
    metric: str
    direction: Direction
    reward: Kind
    limit_seconds: float
    public: Path
    private: Path
    modality: str = "tabular"
    source: Source = field(default_factory=Source)
    references: tuple[Reference, ...] = ()
    grade_function: Callable[[Any, Any], float] | None = None
    grading_seconds: float = 60.0
    "What the grader may take for one submission; one that makes it take longer is refused."

    @property
    def handle(self) -> str:
        """What a command calls the task: its name if it is shipped, else its folder."""
        return self.id if self.folder.parent.name == "tasks" else str(self.folder)

    @cached_property
    def _own_data(self) -> bool:
        """Whether the prepared data were made by the prepare.py that stands in the folder."""
        try:
            manifest = json.loads((self.public.parent / MANIFEST).read_text(encoding="utf-8"))
            digest = hashlib.sha256((self.folder / "prepare.py").read_bytes()).hexdigest()
            return bool(manifest["prepare.py"] == digest)
        except (OSError, ValueError, KeyError, TypeError):
            return True  # prepared by other means: nothing to compare with

    @property
    def sample_file(self) -> Path:
        """The sample submission: the form to keep to, and what doing nothing scores."""
        return self.public / "sample_submission.csv"

    @property
    def submission_bytes(self) -> int:
        """The largest submission that is read."""
        return self.form.most_bytes

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Files and folders of the task itself that no script may read."""
        return (self.private, self.private.parent.parent / "raw", self.folder)

    @property
    def prepared(self) -> bool:
        """Whether the data are in place."""
        return self.sample_file.is_file() and (self.private / "test.csv").is_file()

    @cached_property
    def description(self) -> str:
        """The task in words, for people."""
        return (self.folder / "description.md").read_text(encoding="utf-8")

    @cached_property
    def leaderboard(self) -> tuple[float, ...]:
        """Scores, best first."""
        return tuple(reference.score for reference in self.references)

    @cached_property
    def form(self) -> submission.Form:
        """What a submission must look like."""
        self.require_data()
        return submission.form_of(self.sample_file.read_bytes())

    def require_data(self) -> None:
        """InputError with the remedy when the task has not been prepared."""
        remedy = f"prepare it: rewardrate tasks prepare {self.handle}"
        if not self.prepared:
            raise InputError("task", self.id, f"its data are not in {self.public.parent}", remedy)
        if not self._own_data:
            rule = f"the data in {self.public.parent} were made by another prepare.py"
            raise InputError("task", self.id, rule, remedy)

    def grade(self, data: bytes, split: Split = "reward") -> Grade:
        """Judge a submission's bytes on one split. Never raises for what the bytes hold.

        A grader that ends or hangs is the submission's failure, unless it does so on the sample submission too: that
        is an InputError, and the attempt is not charged.
        """
        try:
            columns = submission.read(data, self.form)
        except submission.SubmissionRefused as refused:
            return Grade(False, None, str(refused))
        try:
            score = self._score(columns, split)
        except (InputError, InfrastructureError):
            raise  # the task's own fault, or this machine's, not the submission's
        except CodeEnded as ended:
            self._require_grader(ended)
            return Grade(False, None, f"the grader failed on it: {ended}")
        except ValueError as error:
            return Grade(False, None, f"it cannot be graded: {' '.join(str(error).split())[:300]}")
        except Exception as error:  # a grader that stumbles over odd values must not end a run of hours
            return Grade(False, None, f"the grader failed on it: {' '.join(repr(error).split())[:300]}")
        if not math.isfinite(score):
            return Grade(False, None, f"its score is not a number ({score}): the values are out of range")
        return Grade(True, score, "")

    def _score(self, columns: Mapping[str, Any], split: Split) -> float:
        """What the grader says to the columns of a submission."""
        rows = self._rows(split)
        tables = (table[rows].reset_index(drop=True) for table in (self._frame(columns), self._answers))
        if isinstance(self.grade_function, TaskCode):
            return float(self.grade_function(*tables, seconds=self.grading_seconds))
        assert self.grade_function is not None
        try:
            return float(self.grade_function(*tables))
        except SystemExit as end:
            raise CodeEnded(f"it raised {end!r}") from None

    def _require_grader(self, ended: CodeEnded) -> None:
        """InputError if the grader does not come back from the sample submission either."""
        try:
            self._score(submission.read(self.sample_file.read_bytes(), self.form), "reward")
        except CodeEnded as again:
            remedy = "let it return the score, or raise ValueError to refuse a submission"
            rule = f"{self.id}: on the sample submission {again}"
            raise InputError("grade.py", str(self.folder), rule, remedy) from ended
        except Exception:
            return  # it says something about the sample: it is alive

    @cached_property
    def baseline(self) -> float:
        """Score of the sample submission on the reward split: what doing nothing earns."""
        return self.scale("reward")[0]

    @cached_property
    def best_reference(self) -> float:
        """The best score on the leaderboard."""
        if not self.leaderboard:
            remedy = f"measure its reference scripts: rewardrate tasks validate {self.handle} --measure"
            raise InputError("leaderboard.csv", self.id, "the gain reward needs the best reference's score", remedy)
        return self.leaderboard[0]

    def scale(self, split: Split) -> tuple[float, float | None]:
        """(score of the sample submission, best score of a reference script) on a split: gains 0 and 1."""
        grade = self.grade(self.sample_file.read_bytes(), split)
        if grade.score is None:
            raise InputError("sample_submission.csv", self.id, f"the grader refuses it: {grade.message}")
        scores = [row.score if split == "reward" else row.report for row in self.references]
        known = [score for score in scores if score is not None]
        pick = max if self.direction == "maximize" else min
        return grade.score, pick(known) if known else None

    @cached_property
    def _report_scale(self) -> tuple[float, float | None]:
        return self.scale("report")

    def check_kind(self, kind: Kind) -> None:
        """InputError if this task cannot have that reward: better now than after an hour."""
        if kind == "gain":
            rewards.gain(self.best_reference, self.baseline, self.best_reference, self.direction)
        elif kind == "percentile":
            rewards.percentile(0.0, self.leaderboard, self.direction)
        elif self.direction == "minimize":
            raise InputError("reward", "raw", f"{self.id} is to be minimized: a raw reward would pay for being wrong")

    def reward_of(self, score: float, kind: Kind | None = None, split: Split = "reward") -> float:
        """The reward of a valid score, by the task's own kind or the one asked for, on the scale of its split."""
        kind = kind or self.reward
        if kind == "raw":
            self.check_kind(kind)
            return score
        if split == "reward":
            baseline, best, board = self.baseline, self.best_reference, self.leaderboard
        else:
            baseline, found = self._report_scale
            best = self.best_reference if found is None else found
            board = tuple(row.report for row in self.references if row.report is not None)
        if kind == "gain":
            return rewards.gain(score, baseline, best, self.direction)
        return rewards.percentile(score, board, self.direction)

    def gains(self, score: float, kind: Kind | None = None, split: Split = "reward") -> bool:
        """Whether a score counts as a success: with `gain`, it must beat the sample submission on that split."""
        if (kind or self.reward) != "gain":
            return True
        baseline = self.baseline if split == "reward" else self._report_scale[0]
        return rewards.better(score, baseline, self.direction)

    @cached_property
    def _answers(self) -> pd.DataFrame:
        """The answers, rows in the order of the form."""
        return self._private_table("test.csv")

    @cached_property
    def _splits(self) -> Mapping[str, Any]:
        if not (self.private / "split.csv").exists():
            return {}
        names = self._private_table("split.csv")["split"]
        return {name: (names == name).to_numpy() for name in ("reward", "report")}

    def _rows(self, split: Split) -> Any:
        import numpy as np

        if not self._splits:
            if split == "report":
                rule, remedy = "the task has no report split", "let prepare.py write it (splits.write_splits)"
                raise InputError("split", split, rule, remedy)
            return np.ones(len(self.form.ids), dtype=bool)
        return self._splits[split]

    def _frame(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        import pandas as pd

        frame = pd.DataFrame(columns)
        key = self.form.columns[0]
        frame[key] = self._answers[key].to_numpy()  # same order by construction; same type as the answers
        return frame

    def _private_table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        key = self.form.columns[0]
        table = pd.read_csv(self.private / name, keep_default_na=False, na_values=[""])  # "None" may be a class
        words = pd.read_csv(self.private / name, usecols=[key], dtype=str, keep_default_na=False)[key]
        place = {word: at for at, word in enumerate(words)}
        if set(place) != set(self.form.ids) or len(place) != len(table):
            raise InputError(str(self.private / name), self.id, "its ids are not those of the sample submission")
        return table.iloc[[place[word] for word in self.form.ids]].reset_index(drop=True)


def read_leaderboard(path: Path, direction: Direction | None = None) -> tuple[Reference, ...]:
    """The rows of a leaderboard.csv, best first; checked against the stated direction. An absent file is empty."""
    if not path.exists():
        return ()
    text = path.read_text(encoding="utf-8")
    if text.startswith("version https://git-lfs"):
        remedy = "run `git lfs pull` in the checkout it came from"
        raise InputError("leaderboard", str(path), "it is a Git-LFS pointer, not the file", remedy)
    rows = list(csv.DictReader(text.splitlines()))
    if rows and "score" not in rows[0]:
        raise InputError("leaderboard", str(path), "it has no column `score`")
    found = []
    for number, row in enumerate(rows, start=2):
        found.append(
            Reference(_number(path, number, row, "score"), row.get("script") or "", *_measures(path, number, row))
        )
    scores = [reference.score for reference in found]
    if direction is not None and scores != sorted(scores, reverse=direction == "maximize"):
        rule = f"its rows are not sorted best first for a score to {direction}"
        raise InputError("leaderboard", str(path), rule, "sort them, or correct `direction` in config.yaml")
    return tuple(found)


def _measures(path: Path, number: int, row: Mapping[str, str]) -> tuple[float | None, ...]:
    names = ("report", "seconds", "cpu_seconds")
    return tuple(_number(path, number, row, name) if row.get(name) else None for name in names)


def _number(path: Path, number: int, row: Mapping[str, str], name: str) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"leaderboard line {number}", row[name], f"{name} must be a finite number in {path}")
    return value
