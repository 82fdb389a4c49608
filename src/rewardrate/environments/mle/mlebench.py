"""Tasks of the real MLE-Bench, graded by MLE-Bench's own code where that package is installed."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import shlex
import tempfile
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rewardrate.environments.mle import lite, schema, submission, task_process
from rewardrate.environments.mle.mlebench_package import LOCK, find_mlebench, heard, modules, sklearn_too_new
from rewardrate.environments.mle.mlebench_package import competition as find_competition
from rewardrate.environments.mle.task import Grade, Reference, Source, Task
from rewardrate.environments.sandboxed import Split
from rewardrate.errors import InputError

LEADERBOARD_REMEDY = (
    "run `git lfs pull` in the MLE-Bench checkout and install it again (pip install --no-deps -e .), "
    "or pass --leaderboards DIR (environment.leaderboards in a recipe) with files ID.csv of columns rank,score, "
    "such as mledojo/competitions of MLE-Dojo"
)
HEAD_BYTES = 200_000  # header and first row must end within; MLE-Bench's widest task has 121 columns
GRADING_SECONDS = 300.0  # some submissions have millions of rows
LEAST_CAP_BYTES = 16 * 2**20
GROWTH = 20  # a submission may be so many times larger than the sample: long floats in place of 0
MESSAGE_CHARACTERS = 300


@dataclass(frozen=True)
class BenchCheck:
    """What one task needs and has on this machine: a row of `rewardrate tasks doctor`."""

    id: str
    package: bool
    "Whether MLE-Bench is installed and can be imported."
    data: Literal["prepared", "missing", "unknown"]
    leaderboard: lite.LeaderboardState
    note: str
    missing: tuple[str, ...]
    "What stops the task from being loaded."
    remedy: str
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the task can be loaded."""
        return not self.missing


@dataclass(frozen=True)
class BenchTask(Task):
    """A task of MLE-Bench. Its grader is looked up when it is needed, so the task can be sent to other processes."""

    data_dir: Path = Path()
    sample: Path = Path()
    "The sample submission, whatever MLE-Bench calls it."
    leaderboard_file: Path | None = None

    @property
    def sample_file(self) -> Path:
        """The sample submission."""
        return self.sample

    @property
    def submission_bytes(self) -> int:
        """The largest submission that is read."""
        return _cap(self.sample)

    @property
    def secrets(self) -> tuple[Path, ...]:
        """The answers, and what they were made from: the raw download holds them too."""
        home = self.data_dir / self.id
        return (self.private, home / "raw", *sorted(home.glob("*.zip")), self.folder)

    @property
    def prepared(self) -> bool:
        """Whether the data are in place."""
        return _unprepared(find_competition(self.id, self.data_dir)) == ""

    @cached_property
    def form(self) -> submission.Form:
        """What a submission must look like."""
        self.require_data()
        return submission.form_of(schema.content(self.sample))

    def require_data(self) -> None:
        """InputError with the remedy when the task has not been prepared."""
        why = _unprepared(find_competition(self.id, self.data_dir))
        if why:
            remedy = _prepare_remedy(self.id, self.data_dir)
            raise InputError("task", self.id, f"its data are not prepared in {self.data_dir} ({why})", remedy)

    def grade(self, data: bytes, split: Split = "reward") -> Grade:
        """Judge a submission's bytes with MLE-Bench's grade_csv. Never raises for what the bytes hold.

        Raises InputError when the submission is not at fault: the data are gone, or the grader refuses even the
        right answers. No attempt may be charged for that.
        """
        if split != "reward":
            remedy = "hold rows back from the training data, or use a shipped task"
            raise InputError("split", split, "MLE-Bench has one hidden test set and it is the reward", remedy)
        refusal = _refusal(data, self.sample)
        if refusal:
            return Grade(False, None, refusal)
        self.require_data()
        with tempfile.TemporaryDirectory(prefix="rewardrate-grade-") as folder:
            path = Path(folder) / "submission.csv"
            path.write_bytes(data)
            verdict = _score(self, path)
        if verdict.score is None and not verdict.deliberate and not self._grader_is_sound:
            again = "check its data and install MLE-Bench again"
            remedy = "pip install 'scikit-learn<1.11'" if sklearn_too_new() else again
            raise InputError("grader", self.id, f"it refuses even the right answers: {verdict.reason}", remedy)
        if verdict.score is None:
            return Grade(False, None, verdict.reason)
        return Grade(True, verdict.score, "")

    @cached_property
    def baseline(self) -> float:
        """Score of the sample submission: what doing nothing earns."""
        self.require_data()
        verdict = _score(self, self.sample)
        if verdict.score is None:
            raise InputError(self.sample.name, self.id, f"the grader refuses it: {verdict.reason}")
        return verdict.score

    @cached_property
    def best_reference(self) -> float:
        """The best score on the leaderboard."""
        if not self.leaderboard:
            raise InputError("leaderboard", self.id, "the gain reward needs its best score", LEADERBOARD_REMEDY)
        return self.leaderboard[0]

    @cached_property
    def _grader_is_sound(self) -> bool:
        """Whether the grader accepts the right answers, or at least the sample submission."""
        gold = find_competition(self.id, self.data_dir).gold_submission
        return any(_score(self, path).score is not None for path in (gold, self.sample))


def load(
    id: str,
    *,
    data_dir: str | Path | None = None,
    leaderboards: str | Path | None = None,
    recipe: str = lite.RECIPE,
) -> BenchTask:
    """The task of that id, ready to be graded. Raises InputError, with the remedy, for whatever is missing.

    `data_dir` holds ID/prepared/{public,private} (default: MLE-Bench's own). `leaderboards` is a folder of
    leaderboards (see lite.find_leaderboard) that is used in place of MLE-Bench's.
    """
    row = lite.find(id, recipe)
    _require_folders(data_dir, leaderboards)
    data = _data_dir(data_dir)
    competition = find_competition(id, data)
    if competition.grader.name != row.grader:
        rule = f"MLE-Bench grades it by {competition.grader.name!r}, the recipe says {row.grader!r}"
        raise InputError("task", id, rule, "check metric and direction, then correct the recipe")
    file = _leaderboard_file(row, competition, leaderboards)
    scores = lite.read_leaderboard(file, row.direction) if file else ()
    task = BenchTask(
        id=id,
        name=competition.name,
        folder=competition.leaderboard.parent,
        goal=row.goal,
        metric=f"{row.metric} ({'higher' if row.direction == 'maximize' else 'lower'} is better)",
        direction=row.direction,
        reward=row.reward,
        limit_seconds=row.limit_seconds,
        public=competition.public_dir,
        private=competition.private_dir,
        modality=row.modality,
        source=Source("mlebench", "prepared by MLE-Bench from Kaggle's download", "the competition's own rules", id),
        references=tuple(Reference(score) for score in scores),
        grading_seconds=GRADING_SECONDS,
        data_dir=data,
        sample=competition.sample_submission,
        leaderboard_file=file,
    )
    if not row.rules_open and not task.prepared:
        place = task.public.parent
        remedy = f"only a copy that was prepared earlier will do: put it at {place}"
        raise InputError("task", id, "its data are missing and Kaggle no longer lets anyone accept its rules", remedy)
    task.require_data()
    return task


def doctor(
    *, data_dir: str | Path | None = None, leaderboards: str | Path | None = None, recipe: str = lite.RECIPE
) -> list[BenchCheck]:
    """What each task of the recipe needs and has here. Changes nothing; a missing part is a row, not an error."""
    rows = lite.tasks(recipe)
    _require_folders(data_dir, leaderboards)
    try:
        data = _data_dir(data_dir)
    except InputError as error:
        remedy = error.remedy
        return [
            BenchCheck(
                id=row.id,
                package=False,
                data="unknown",
                leaderboard="unknown",
                note=row.note,
                missing=("mlebench",),
                remedy=remedy,
            )
            for row in rows
        ]
    return [_check(row, data, leaderboards) for row in rows]


@dataclass(frozen=True)
class _Verdict:
    score: float | None
    reason: str = ""
    deliberate: bool = False
    "Whether the grader refused on purpose, as against failing."


def _check(row: lite.LiteTask, data: Path, leaderboards: str | Path | None) -> BenchCheck:
    missing: list[str] = []
    remedies: list[str] = []
    state: Literal["prepared", "missing", "unknown"] = "unknown"
    package = find_mlebench()
    shipped = package.folder / "competitions" / row.id / "leaderboard.csv" if package else None
    board = lite.leaderboard_state(_leaderboard_path(row.id, shipped, leaderboards))
    try:
        why = _unprepared(find_competition(row.id, data))
        state = "missing" if why else "prepared"
    except InputError as error:
        missing.append("grader")
        remedies.append(error.remedy)
    if state == "missing":
        missing.append("data")
        closed = f"only a copy that was prepared earlier will do: put it at {data / row.id / 'prepared'}"
        remedies.append(_prepare_remedy(row.id, data) if row.rules_open else closed)
    if board != "real" and row.reward != "raw":
        missing.append("leaderboard")
        remedies.append(LEADERBOARD_REMEDY)
    cautions = ["the public data give the label away"] if row.leaks_label else []
    if row.uses_log_loss and sklearn_too_new():
        cautions.append("scikit-learn 1.11 and later may break its grader: pip install 'scikit-learn<1.11'")
    return BenchCheck(
        id=row.id,
        package=True,
        data=state,
        leaderboard=board,
        note=row.note,
        missing=tuple(missing),
        remedy="; ".join(remedies),
        warnings=tuple(cautions),
    )


def _data_dir(data_dir: str | Path | None) -> Path:
    """The data folder asked for, or MLE-Bench's own; InputError when MLE-Bench is not there."""
    own = Path(modules().registry.registry.get_data_dir())
    return own if data_dir is None else Path(data_dir).resolve()


def _require_folders(data_dir: str | Path | None, leaderboards: str | Path | None) -> None:
    for name, folder in (("data_dir", data_dir), ("leaderboards", leaderboards)):
        if folder is not None and not Path(folder).is_dir():
            raise InputError(name, str(folder), "there is no such folder")


def _leaderboard_file(row: lite.LiteTask, competition: Any, folder: str | Path | None) -> Path | None:
    """The leaderboard to use; None when there is none and the reward can do without."""
    file = _leaderboard_path(row.id, competition.leaderboard, folder)
    state = lite.leaderboard_state(file)
    if state == "real":
        return file
    if row.reward == "raw":
        return None
    if state == "unreadable" and file is not None:
        lite.read_leaderboard(file, row.direction)  # says what is wrong with it
    what = {"pointer": f"{file} is a Git-LFS pointer, not the leaderboard", "missing": "it has no leaderboard here"}
    rule = what.get(state, f"{file} cannot be read")
    raise InputError("task", row.id, f"the {row.reward} reward needs the leaderboard, but {rule}", LEADERBOARD_REMEDY)


def _leaderboard_path(id: str, shipped: Path | None, folder: str | Path | None) -> Path | None:
    """The leaderboard in the folder asked for if it has one, else the one that came with MLE-Bench."""
    asked = lite.find_leaderboard(id, Path(folder)) if folder is not None else None
    return asked or shipped


def _prepare_remedy(id: str, data: Path) -> str:
    default = Path(modules().registry.registry.get_data_dir())
    place = "" if data == default else f" --data-dir {shlex.quote(str(data))}"
    return f"prepare them (Kaggle credentials and accepted rules needed): mlebench prepare -c {id}{place}"


def _unprepared(competition: Any) -> str:
    """Why MLE-Bench says the data are not prepared; empty when they are."""
    with LOCK, heard() as said:
        if modules().data.is_dataset_prepared(competition, grading_only=False):
            return ""
    return _one_line(" ".join(said)).rstrip(".") or "they are not there"


def _cap(sample: Path) -> int:
    return max(LEAST_CAP_BYTES, GROWTH * (sample.stat().st_size if sample.is_file() else 0))


def _refusal(data: bytes, sample: Path) -> str:
    """Why the bytes are not even shown to the grader: it would read them whatever they are."""
    cap = _cap(sample)
    if not data.strip():
        return "submission.csv is empty"
    if len(data) > cap:
        return f"submission.csv has {len(data):,} bytes; at most {cap:,} are read for this task"
    if b"\x00" in data[:HEAD_BYTES]:
        return "submission.csv is not a text file: it has NUL bytes"
    # A row of a million columns takes pandas minutes and gigabytes. Later rows cannot be wider than the first two.
    text = data[:HEAD_BYTES].decode("latin-1")
    try:
        first = list(itertools.islice((row for row in csv.reader(io.StringIO(text, newline="")) if row), 3))
    except csv.Error as error:
        return f"submission.csv is not valid CSV: {error}"
    if len(data) > HEAD_BYTES and len(first) < 3:
        return f"submission.csv has rows of more than {HEAD_BYTES:,} bytes"
    return ""


def _score(task: BenchTask, path: Path) -> _Verdict:
    """MLE-Bench's own score of a file."""
    try:
        verdict: _Verdict = task_process.call(__name__, "score_here", task, path, seconds=task.grading_seconds)
    except task_process.CodeEnded as ended:
        return _Verdict(None, f"the grader failed on it: {ended}")
    return verdict


def score_here(task: BenchTask, path: Path) -> _Verdict:
    """The same, in this process. Without a leaderboard there are no medals, so MLE-Bench's grader is called alone."""
    bench = modules()
    competition = find_competition(task.id, task.data_dir, task.leaderboard_file)
    with LOCK, heard() as said, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about MLE-Bench's own code; turned into errors they would refuse every file
        try:
            if task.leaderboard_file is not None:
                score = _number(bench.grade.grade_csv(path, competition).score)
            else:
                answers = bench.utils.load_answers(competition.answers)
                score = _number(competition.grader(bench.utils.read_csv(path), answers))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
            score = None
    if score is None:
        return _Verdict(None, _reason(said, task, path), any(line.startswith("Invalid submission") for line in said))
    if not math.isfinite(score):
        return _Verdict(None, f"its score is not a number ({score}): the values are out of range", deliberate=True)
    return _Verdict(score)


def _number(score: Any) -> float | None:
    return None if score is None else float(score)


def _reason(said: list[str], task: BenchTask, path: Path) -> str:
    """The grader's own words on one line, without our paths: they go to the model that wrote the submission."""
    text = " ".join(said) or "the grader refused it without a word"
    for folder in (path.parent, task.private, task.data_dir, task.folder):
        text = text.replace(f"{folder}/", "")
    text = re.sub(r"\.? Check \S+$", "", text)
    return _one_line(re.sub(r"^Invalid submission: |^Unexpected error during grading: ", "", text))


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_CHARACTERS else text[: MESSAGE_CHARACTERS - 3] + "..."
