"""Is a task sound? Its files, its grader, its answers, and every reference script run again."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.environments.mle import leaks, preparation, rewards
from rewardrate.environments.mle.environment import SUBMISSION, Settings, order
from rewardrate.environments.mle.hiding import missing_paths
from rewardrate.environments.mle.task import Grade, Reference, Task, read_leaderboard
from rewardrate.environments.sandboxed import Split
from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Result

TOLERANCE = 0.02  # of the gain: libraries and processors differ in the last digits, and long training amplifies them
FEWEST_SCRIPTS = 2
COPY = "00_copy_sample"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Measured:
    """One reference script, run."""

    script: str
    status: str
    score: float | None
    report: float | None
    seconds: float
    cpu_seconds: float
    message: str
    clean: bool
    "Whether nothing else used its cores."


def check_grader(task: Task) -> Iterator[Check]:
    """What the grader says to submissions whose worth is known."""
    sample = task.sample_file.read_bytes()
    form = task.form
    yield Check("the sample submission is graded", task.grade(sample).valid, f"baseline {task.baseline:.6g}")
    header = ",".join(form.columns).encode()
    lines = sample.decode("utf-8-sig").splitlines()
    hostile = {
        "an empty file": b"",
        "a header alone": header + b"\n",
        "bytes that are no text": bytes(range(256)) * 8,
        "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "a missing row": "\n".join(lines[:-1]).encode(),
        "a row twice": "\n".join([*lines[:-1], lines[1]]).encode(),
        "a missing column": "\n".join(line.rpartition(",")[0] for line in lines).encode(),
        "an unnamed index column": "\n".join(
            f"{n},{line}" if n else f",{line}" for n, line in enumerate(lines)
        ).encode(),
        "a blank value": "\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ","]).encode(),
    }
    if form.numeric:
        number = sorted(form.numeric)[0]
        hostile["a missing number (nan)"] = _with_cell(lines, form.columns.index(number), "nan")
        hostile["an infinite number"] = _with_cell(lines, form.columns.index(number), "inf")
        hostile["a word for a number"] = _with_cell(lines, form.columns.index(number), "__import__('os')")
    for name, data in hostile.items():
        grade = task.grade(data)
        yield Check(f"refused: {name}", not grade.valid, grade.message or f"scored {grade.score}")


def check_answers(task: Task) -> Iterator[Check]:
    """The true answers must beat every reference and the sample; the more of them are wrong, the worse the score."""
    for split in ("reward", "report"):
        if split == "report" and not (task.private / "split.csv").exists():
            yield Check("there is a report split", False, "private/split.csv is missing")
            continue
        perfect = task.grade(_answers_as_submission(task, np.arange(len(task.form.ids))), split)
        sound = perfect.score is not None and not any(
            rewards.better(entry, perfect.score, task.direction) for entry in task.leaderboard
        )
        yield Check(f"the true answers beat every reference ({split})", sound, _said(perfect))
        yield from _check_direction(task, perfect, split)
    if not task.leaderboard:
        return
    beaten = rewards.better(task.best_reference, task.baseline, task.direction)
    said = f"{task.best_reference:.6g} against {task.baseline:.6g}"
    yield Check("the best reference beats the sample submission", beaten, said)
    moved = task.grade(_answers_as_submission(task, np.roll(np.arange(len(task.form.ids)), len(task.form.ids) // 2)))
    if beaten and moved.score is not None:
        worth = rewards.gain(moved.score, task.baseline, task.best_reference, task.direction)
        yield Check("true answers on the wrong rows are worth little", worth < 0.5, f"{_said(moved)}, gain {worth:.3f}")


def _check_direction(task: Task, perfect: Grade, split: Split) -> Iterator[Check]:
    """Whether `direction` is the metric's: the sample submission and answers with mistakes are worse than the truth."""
    remedy = f"is `direction: {task.direction}` in config.yaml the wrong way round?"
    mistaken = task.grade(_answers_as_submission(task, _mistaken_order(task)), split)
    sample = task.grade(task.sample_file.read_bytes(), split)
    for name, other in (("the sample submission", sample), ("answers with mistakes", mistaken)):
        known = perfect.score is not None and other.score is not None
        worse = known and rewards.better(perfect.score or 0.0, other.score or 0.0, task.direction)
        said = f"{_said(perfect)} for the truth, {_said(other)} for the other" + ("" if worse else f"; {remedy}")
        yield Check(f"the true answers beat {name} ({split})", worse, said)


def scripts(task: Task) -> dict[str, str]:
    """Name -> text of the task's reference scripts, in order."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((task.folder / "reference").glob("*.py"))}


def measure(
    task: Task,
    executor: Executor,
    settings: Settings = Settings(),  # noqa: B008
    *,
    names: Sequence[str] | None = None,
    on_done: Callable[[int], None] | None = None,
) -> list[Measured]:
    """Run the reference scripts and grade each on both splits."""
    texts = {name: text for name, text in scripts(task).items() if names is None or name in names}
    blank = order(task, settings)
    results: dict[int, Result] = {}
    with contextlib.closing(executor.stream([replace(blank, script=text) for text in texts.values()])) as ended:
        for index, result in ended:
            results[index] = result
            if on_done is not None:
                on_done(len(results))
    return [_measured(task, name, results[index]) for index, name in enumerate(texts)]


def check_references(task: Task, measured: Sequence[Measured]) -> Iterator[Check]:
    """Every script's score is what the leaderboard says; copying the sample earns nothing; speed and score differ."""
    known = {reference.script: reference for reference in task.references}
    honest = [row for row in measured if row.script != COPY]
    yield Check(f"at least {FEWEST_SCRIPTS} reference scripts", len(honest) >= FEWEST_SCRIPTS, str(len(honest)))
    for row in measured:
        if row.score is None:
            yield Check(f"runs: {row.script}", False, f"{row.status}: {row.message}")
        elif row.script == COPY:
            same = not rewards.better(row.score, task.baseline, task.direction)
            yield Check("copying the sample earns nothing", same, f"{row.score:.6g} in {row.seconds:.2f} s")
        elif row.script not in known:
            remedy = f"measure it: rewardrate tasks validate {task.handle} --measure"
            yield Check(f"reproduced: {row.script}", False, f"it is not on the leaderboard; {remedy}")
        else:
            yield _reproduced(task, row, known[row.script])


def check_and_write(task: Task, measured: Sequence[Measured]) -> list[Check]:
    """Check a task as if its leaderboard were this measurement, and write leaderboard.csv if every check passes."""
    references = tuple(
        Reference(row.score, row.script, row.report) for row in _ranked(task, measured) if row.score is not None
    )
    fresh = replace(task, references=references)
    checks = [*prepare_and_check(fresh), *check_references(fresh, measured)]
    if all(check.passed for check in checks):
        return [*checks, Check("leaderboard.csv is written", True, str(write_leaderboard(task, measured)))]
    return [*checks, Check("leaderboard.csv is written", False, "not before every other check passes")]


def write_leaderboard(task: Task, measured: Sequence[Measured]) -> Path:
    """Write leaderboard.csv from a measurement, best first, all at once. Scripts that failed are an InputError."""
    rows = _ranked(task, measured)
    for row in rows:
        if row.score is None:
            raise InputError(f"reference/{row.script}.py", row.status, f"it gave no score ({row.message})", "mend it")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["score", "report", "seconds", "cpu_seconds", "script", "source"])
    for row in rows:
        report = "" if row.report is None else f"{row.report:.10g}"
        times = (f"{row.seconds:.3f}", f"{row.cpu_seconds:.3f}")
        writer.writerow([f"{row.score:.10g}", report, *times, row.script, "reference-solutions"])
    path = task.folder / "leaderboard.csv"
    partial = path.with_suffix(".partial")
    partial.write_text(text.getvalue(), encoding="utf-8")
    read_leaderboard(partial, task.direction)
    os.replace(partial, path)
    return path


def _ranked(task: Task, measured: Sequence[Measured]) -> list[Measured]:
    """The reference scripts, best first."""
    sign = -1 if task.direction == "maximize" else 1
    return sorted((row for row in measured if row.script != COPY), key=lambda row: sign * (row.score or 0.0))


def _measured(task: Task, name: str, result: Result) -> Measured:
    grades: dict[Split, Grade] = {}
    why = result.message or result.refused.get(SUBMISSION, "")
    if result.status == "ok" and SUBMISSION in result.files:
        splits: tuple[Split, ...] = ("reward", "report") if (task.private / "split.csv").exists() else ("reward",)
        grades = {split: task.grade(result.files[SUBMISSION], split) for split in splits}
        why = grades["reward"].message
    score, report = (grades[split].score if split in grades else None for split in ("reward", "report"))
    if result.status == "error":
        why = (result.stderr.strip().splitlines() or [why])[-1][:200]
    return Measured(
        script=name,
        status=result.status,
        score=score,
        report=report,
        seconds=result.priced_seconds,
        cpu_seconds=result.cpu_seconds,
        message=why,
        clean=not result.contaminated,
    )


def _reproduced(task: Task, row: Measured, known: Reference) -> Check:
    assert row.score is not None
    span = abs(task.best_reference - task.baseline) or 1.0
    off = abs(row.score - known.score) / span
    report_off = 0.0
    if row.report is not None and known.report is not None:
        report_off = abs(row.report - known.report) / span
    found = f"{row.score:.6g} in {row.seconds:.2f} s" + (f", {known.score:.6g} was measured" if off > 1e-9 else "")
    return Check(f"reproduced: {row.script}", max(off, report_off) <= TOLERANCE, found)


def _said(grade: Grade) -> str:
    return f"score {grade.score:.6g}" if grade.score is not None else grade.message


def _with_cell(lines: list[str], place: int, cell: str) -> bytes:
    last = lines[-1].split(",")
    last[place] = cell
    return "\n".join([*lines[:-1], ",".join(last)]).encode()


def _mistaken_order(task: Task) -> Any:
    """Rows in which the lowest quarter of the answers has changed places with the highest."""
    label = next(name for name in task._answers.columns if name != task.form.columns[0])
    values = task._answers[label]
    ranked = np.argsort(
        values.to_numpy() if values.dtype.kind in "biuf" else values.astype(str).to_numpy(), kind="stable"
    )
    order_of_rows = np.arange(len(ranked))
    quarter = max(1, len(ranked) // 4)
    low, high = ranked[:quarter], ranked[::-1][:quarter]
    order_of_rows[low], order_of_rows[high] = high, low
    return order_of_rows


def _answers_as_submission(task: Task, order_of_rows: Any) -> bytes:
    """The answers in the form of a submission; row i gets the answer of row order_of_rows[i]."""
    form, answers = task.form, task._answers
    table: dict[str, Any] = {form.columns[0]: list(form.ids)}
    if set(form.columns) <= set(answers.columns):
        for name in form.columns[1:]:
            table[name] = answers[name].to_numpy()[order_of_rows].tolist()
    else:  # one column of probabilities for each class
        label = next(name for name in answers.columns if name != form.columns[0])
        words = answers[label].astype(str).to_numpy()[order_of_rows]
        for name in form.columns[1:]:
            table[name] = [1.0 if word == name else 0.0 for word in words]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(form.columns)
    writer.writerows(zip(*(table[name] for name in form.columns), strict=True))
    return text.getvalue().encode()


def prepare_and_check(task: Task) -> Iterator[Check]:
    """The checks that need no script to run."""
    preparation.prepare(task)
    yield Check("prepared, and the files are those that were measured", True, str(task.public.parent))
    yield from check_hiding(task)
    yield from check_grader(task)
    yield from check_answers(task)
    yield from check_leaks(task)


def check_hiding(task: Task) -> Iterator[Check]:
    """Every path of `source.hide` exists here: one that does not hides nothing. Data of a package must be hidden."""
    missing = missing_paths(task)
    yield Check("hidden paths exist", not missing, ", ".join(missing or task.source.hide) or "none")
    if task.source.package and not task.source.hide:
        remedy = "scripts can read its data there: list them below `source.hide`"
        yield Check("what the data are made from is hidden", False, f"nothing of {task.source.package} is; {remedy}")


def check_leaks(task: Task) -> Iterator[Check]:
    """Nothing that scripts can read gives the answers of test rows away."""
    for name, worst, passed in leaks.found(task):
        yield Check(name, passed, worst)
