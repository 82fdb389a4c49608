"""Task folders: MLE-Bench's layout plus our keys, found by name among the shipped ones or by path anywhere."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from rewardrate.environments.cache import default_folder
from rewardrate.environments.mle.rewards import Direction, Kind
from rewardrate.environments.mle.task import Source, Task, read_leaderboard
from rewardrate.environments.mle.task_process import TaskCode
from rewardrate.errors import InputError, MissingExtra, did_you_mean, nearest

FILES = ("config.yaml", "prepare.py", "grade.py", "description.md")
OURS = {"direction", "metric", "goal", "time_limit", "reward", "modality", "source"}
MLE_BENCH = {
    "id",
    "name",
    "competition_type",
    "awards_medals",
    "prizes",
    "description",
    "dataset",
    "grader",
    "preparer",
}
BENCH = "mlebench:"
MODALITIES = ("tabular", "text", "image", "series")


def shipped() -> dict[str, Path]:
    """Name -> folder of the tasks that come with the package."""
    here = Path(__file__).parents[2]
    folders = [here / "tasks", here.parent.parent / "tasks"]  # installed wheel; source checkout
    return {
        path.parent.name: path.parent
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.glob("*/config.yaml"))
    }


def find(name: str) -> Path:
    """The folder of a task given by name or by path. InputError with the nearest name."""
    known = shipped()
    if name in known:
        return known[name]
    path = Path(name)
    if (path / "config.yaml").is_file():
        return path.resolve()
    if path.is_dir() or "/" in name:
        raise InputError(
            "task", name, "there is no config.yaml in that folder", "docs/add-a-task.md says how to make one"
        )
    raise InputError("task", name, "there is no task of that name", did_you_mean(name, known))


def load(name: str, *, data: Path | None = None, leaderboards: str | Path | None = None) -> Task:
    """The task of that name or folder; its data (prepared or not yet) below `data`/<id>/prepared.

    "mlebench:ID" is a task of MLE-Bench, where that is installed; `data` is then MLE-Bench's own data folder, and
    `leaderboards` a folder of leaderboards that is used in place of its own.
    """
    if name.startswith(BENCH):
        from rewardrate.environments.mle import mlebench

        return mlebench.load(name.removeprefix(BENCH), data_dir=data, leaderboards=leaderboards)
    if leaderboards is not None:
        rule = f"{name} has its own leaderboard.csv"
        raise InputError("leaderboards", str(leaderboards), rule, f"leave it out, or name a task {BENCH}ID")
    folder = find(name)
    for file in FILES:
        if not (folder / file).is_file():
            raise InputError("task", str(folder), f"{file} is missing", "docs/add-a-task.md lists what a task holds")
    config = _read(folder / "config.yaml")
    prepared = (data or default_folder("tasks")) / config["id"] / "prepared"
    direction: Direction = _one_of(config, "direction", get_args(Direction))
    kind: Kind = _one_of(config, "reward", get_args(Kind), "gain")
    if kind == "raw" and direction == "minimize":
        raise InputError("reward", "raw", "a metric to minimize cannot be the reward itself", "use gain or percentile")
    return Task(
        id=config["id"],
        name=_words(config, "name", config["id"]),
        folder=folder,
        goal=_words(config, "goal"),
        metric=_words(config, "metric"),
        direction=direction,
        reward=kind,
        limit_seconds=_seconds(config),
        public=prepared / "public",
        private=prepared / "private",
        modality=_one_of(config, "modality", MODALITIES, "tabular"),
        source=_source(config.get("source") or {}),
        references=read_leaderboard(folder / "leaderboard.csv", direction),
        grade_function=TaskCode(folder / "grade.py", "grade"),
    )


def read_source(folder: Path) -> Source:
    """Where the data of a task folder come from."""
    return _source(_read(folder / "config.yaml").get("source") or {})


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("a task's config.yaml", "pyyaml", "agent") from None
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InputError("config.yaml", str(path), f"it cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(table, dict):
        raise InputError("config.yaml", str(path), "it must be a table of keys")
    for key in table:
        if key not in OURS | MLE_BENCH:
            raise InputError(
                f"config.yaml: {key}", table[key], "there is no such key", did_you_mean(str(key), OURS | MLE_BENCH)
            )
    name = table.get("id")
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise InputError("config.yaml: id", name, "it must be a name of letters, digits, - and _")
    if name != path.parent.name:
        raise InputError("config.yaml: id", name, f"it must be the folder's name, {path.parent.name}")
    return table


def _words(config: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = config.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"config.yaml: {key}", value, "it must be a line of text")
    return " ".join(value.split())


def _one_of(config: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str | None = None) -> Any:
    value = config.get(key, default)
    if value not in allowed:
        near = nearest(value, allowed) if isinstance(value, str) else ""
        raise InputError(f"config.yaml: {key}", value, f"it must be one of {', '.join(allowed)}", near)
    return value


def _seconds(config: Mapping[str, Any]) -> float:
    value = config.get("time_limit", 600)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise InputError("config.yaml: time_limit", value, "it must be a positive number of seconds")
    return float(value)


def _source(table: Any) -> Source:
    known = set(Source.__dataclass_fields__)
    if not isinstance(table, dict):
        raise InputError("config.yaml: source", table, f"it must be a table with {', '.join(sorted(known))}")
    for key in table:
        if key not in known:
            raise InputError(
                f"config.yaml: source.{key}", table[key], "there is no such key", did_you_mean(str(key), known)
            )
    hide = table.get("hide") or []
    if not isinstance(hide, list) or not all(isinstance(path, str) and _below(path) for path in hide):
        raise InputError("config.yaml: source.hide", hide, "it must be a list of paths below site-packages")
    words = {key: str(table[key]) for key in table if key != "hide"}
    return Source(**words, hide=tuple(hide))


def _below(path: str) -> bool:
    return bool(path) and not os.path.isabs(path) and ".." not in Path(path).parts
