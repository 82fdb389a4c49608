"""Make a task's data: run its prepare.py into a fresh folder, check every file, then put it in place at once."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

from rewardrate.environments import cache
from rewardrate.environments.mle.hiding import require_paths
from rewardrate.environments.mle.task import MANIFEST, Task
from rewardrate.environments.mle.task_process import CodeEnded, TaskCode
from rewardrate.errors import InputError, MissingExtra

MISSING = {"", "nan", "-nan", *(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))}
NEEDED = ("public/sample_submission.csv", "private/test.csv")


def prepare(task: Task, *, again: bool = False) -> bool:
    """Make the data unless they are there and made by the same prepare.py; whether anything was done.

    Two processes that prepare the same task wait for each other. A failure leaves what was there before.
    """
    require_paths(task)
    place = task.public.parent
    with cache.locked(place.parent):
        if not again and current(task):
            return False
        with cache.replacing(place) as fresh:
            made = _make(task, fresh)
            _check(task, made)
            fresh.chmod(0o755)
            (fresh / "private").chmod(0o700)  # where nothing but file rights stands between a script and the answers
    return True


def current(task: Task) -> bool:
    """Whether prepared data are there, whole, and made by the prepare.py that stands in the folder now."""
    try:
        manifest = json.loads((task.public.parent / MANIFEST).read_text(encoding="utf-8"))
        files = manifest["files"]
        same = manifest["prepare.py"] == _digest(task.folder / "prepare.py")
        return same and all((task.public.parent / name).stat().st_size == size for name, (_, size) in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def checksums(task: Task) -> dict[str, str]:
    """File -> sha256 of what `prepare` made; for a task's checksums.yaml."""
    task.require_data()
    return _digests(task.public.parent)


def _make(task: Task, fresh: Path) -> dict[str, str]:
    raw, public, private = task.public.parent.parent / "raw", fresh / "public", fresh / "private"
    for folder in (raw, public, private):
        folder.mkdir(exist_ok=True)
    try:
        TaskCode(task.folder / "prepare.py", "prepare")(raw, public, private)
    except (InputError, MissingExtra, OSError):
        raise
    except CodeEnded as ended:
        rule = f"{task.id}: {ended} before the data were made"
        remedy = "let it return, or raise an error that says why"
        raise InputError("prepare.py", str(task.folder), rule, remedy) from None
    except Exception as error:
        raise InputError("prepare.py", str(task.folder), f"it failed: {' '.join(repr(error).split())}") from error
    for name in NEEDED:
        if not (fresh / name).is_file():
            raise InputError("prepare.py", str(task.folder), f"it did not write {name}")
    if not any(public.iterdir()):
        raise InputError("prepare.py", str(task.folder), "it wrote nothing that scripts could read")
    _check_tables(task, fresh)
    made = _digests(fresh)
    sizes = {name: [digest, (fresh / name).stat().st_size] for name, digest in made.items()}
    manifest = {"task": task.id, "prepare.py": _digest(task.folder / "prepare.py"), "files": sizes}
    (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return made


def _check(task: Task, made: dict[str, str]) -> None:
    """Against checksums.yaml, where the task has one: the leaderboard was measured on exactly these files."""
    path = task.folder / "checksums.yaml"
    if not path.exists():
        return
    import yaml

    stated = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    for name, digest in stated.items():
        if made.get(name) != digest:
            package = task.source.package or "its source"
            remedy = f"install the pinned version of {package}, or remake checksums.yaml and leaderboard.csv"
            raise InputError(
                f"{task.id}/{name}", made.get(name, "not made"), "it is not the file that was measured", remedy
            )


def _check_tables(task: Task, fresh: Path) -> None:
    """No table is empty, and every answer is there: a label that is missing or infinite spoils every score."""
    for name in ("public/train.csv", "public/test.csv", *NEEDED):
        if (fresh / name).is_file() and not any(_rows(fresh / name)):
            raise InputError("prepare.py", str(task.folder), f"{name} has no rows", "check what it reads and selects")
    columns = list(next(iter(_rows(fresh / NEEDED[0]))))
    answers = list(_rows(fresh / NEEDED[1]))
    for name in [name for name in columns[1:] if name in answers[0]] or [
        name for name in answers[0] if name != columns[0]
    ]:
        cells = [(row.get(name) or "").strip().lower() for row in answers]
        bad = [cell in MISSING for cell in cells]
        numbers = all(_is_number(cell) for cell, is_bad in zip(cells, bad, strict=True) if not is_bad)
        if count := sum(is_bad and (numbers or not cell) for cell, is_bad in zip(cells, bad, strict=True)):
            rule = f"private/test.csv: {count} of {len(cells)} answers in column {name!r} are missing or not finite"
            raise InputError("prepare.py", str(task.folder), rule, "leave these rows out of the test table")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError("prepare.py", path.name, f"it is no table in UTF-8 ({error})") from None
    finally:
        csv.field_size_limit(limit)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for part in ("public", "private") for path in (folder / part).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _digest(path) for path in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
