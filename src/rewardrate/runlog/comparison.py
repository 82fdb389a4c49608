"""The folder of a comparison of arms: its plan, frozen before the first run, and a folder for each task and seed.

    plan.toml        the plan, every setting
    recipe.toml      the recipe of all runs, resolved; task, seed, arm and start are those of each run
    plan.json        SHA-256 of both files, when they were frozen, what was changed afterwards
    TASK-sSEED/      a block: ARM is a run folder, ARM.log what its process printed
      block.json     for each arm: SHA-256 of plan and start, and the sittings it ran in

Blocks that were run on several machines are merged by copying their folders into one.
"""

from __future__ import annotations

import hashlib
import json
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from rewardrate import __version__, config
from rewardrate.config import AtLeast, KindUnlessGiven
from rewardrate.errors import InputError
from rewardrate.runlog.folder import write_file

PLAN, RECIPE, STATE, BLOCK = "plan.toml", "recipe.toml", "plan.json", "block.json"
Value = Literal["current", "latest-valid", "best-so-far"]
"A chain's value at a budget; `current`, the default, is the paper's: an invalid attempt counts 0."


@dataclass(frozen=True)
class ModelStart:
    """All runs begin from a model that is there."""

    kind: Literal["model"] = "model"
    name: str = ""
    "What policy.name takes: a folder, tiny, a hub id. Empty: the recipe's own policy."


@dataclass(frozen=True)
class PretrainedStart:
    """All runs begin from a model that a pretraining recipe makes first, once in each folder: OUT/start."""

    kind: Literal["pretrain"] = "pretrain"
    recipe: str = "pretrain-start"
    "The pretraining recipe, by name or file."
    settings: tuple[str, ...] = ()
    "Settings of that recipe, as --set takes them."


@dataclass(frozen=True)
class TaskBlock:
    """One task and one seed: all arms, from one start, with the same budget."""

    task: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{Path(self.task).name}-s{self.seed}"

    def __str__(self) -> str:
        return f"{Path(self.task).name}:{self.seed}"


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and how it is judged: stated before the first run."""

    hypothesis: str
    "What is expected, and what would refute it."
    recipe: str
    "Name of a recipe, or a TOML file."
    tasks: tuple[str, ...]
    "Names or folders, as the recipe's task."
    script_seconds: Annotated[float, AtLeast(0.1)]
    "Budget of one run (budget.script_seconds). T, what a chain gets of it, is script_seconds / batch."
    seeds: tuple[Annotated[int, AtLeast(0)], ...] = (0, 1, 2, 3, 4)
    "Repetitions: every arm runs on every task with each of them."
    arms: tuple[str, ...] = ("vanilla", "rpg")
    "vanilla: time is free; rpg: a second costs the reward rate; horizon: what it can still earn before T."
    baseline: str = "vanilla"
    "The arm that the others are compared with."
    value: Value = "current"
    "What a chain shows at a budget. The metric is its mean over chains and over 21 budgets from 0.8 T to T."
    stopping: str = "all blocks are complete; no difference between arms is looked at before"
    "Stopping rule, in words."
    stop_after: Annotated[int, AtLeast(1)] | None = None
    "Complete blocks (a task and a seed) that make the comparison complete; all of them unless given."
    settings: tuple[str, ...] = ()
    "Settings of the recipe, as --set takes them. sandbox.slots: cores of one run."
    start: Annotated[ModelStart | PretrainedStart, KindUnlessGiven("model")] = field(default_factory=ModelStart)

    def __post_init__(self) -> None:
        for name, values in (("tasks", self.tasks), ("seeds", self.seeds), ("arms", self.arms)):
            shown = [Path(value).name if name == "tasks" else value for value in map(str, values)]
            if not values or len(set(shown)) < len(shown):
                raise InputError(name, list(values), "it must name at least one, and none twice")
        if self.baseline not in self.arms or len(self.arms) < 2:
            raise InputError("baseline", self.baseline, f"it must be one of several arms: {', '.join(self.arms)}")
        if self.stop_after is not None and self.stop_after > len(self.blocks):
            raise InputError("stop_after", self.stop_after, f"tasks and seeds make {len(self.blocks)} blocks")

    @property
    def blocks(self) -> tuple[TaskBlock, ...]:
        """In the order in which they are worked through: seed by seed, so that an early end has all tasks."""
        return tuple(TaskBlock(task, seed) for seed in self.seeds for task in self.tasks)

    @property
    def needed(self) -> int:
        """Complete blocks that make the comparison complete."""
        return len(self.blocks) if self.stop_after is None else self.stop_after

    def order(self, block: TaskBlock) -> tuple[str, ...]:
        """The arms in the order in which they begin: rotated over tasks and seeds, so each is first equally often."""
        first = (self.tasks.index(block.task) + self.seeds.index(block.seed)) % len(self.arms)
        return (*self.arms[first:], *self.arms[:first])

    def find(self, words: str) -> TaskBlock:
        """A block by TASK:SEED; InputError for one that the plan does not have."""
        for block in self.blocks:
            if words in (str(block), f"{block.task}:{block.seed}", block.name):
                return block
        near = f"for example {self.blocks[0]}"
        raise InputError("block", words, "the plan has no such block (TASK:SEED)", near)


def digest(plan: ComparisonPlan, recipe: str) -> str:
    """SHA-256 of a plan and its resolved recipe."""
    return hashlib.sha256(f"{config.dumps(plan)}\n{recipe}".encode()).hexdigest()


class ComparisonFolder:
    """Reads and writes what stands beside the runs."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def frozen(self) -> bool:
        """Whether there is a plan in it."""
        return (self.path / STATE).exists()

    def freeze(self, plan: ComparisonPlan, recipe: str, *, accept_changes: bool = False) -> None:
        """Write the plan down, once. Another one is refused: the first setting that differs is named.

        With `accept_changes` it replaces the frozen one, and every setting that changed is kept as a deviation.
        """
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state: dict[str, Any] = {"frozen": now, "rewardrate": __version__, "changes": []}
        if self.frozen():
            state = self.state()
            changes = _differences(self.plan(), self.recipe(), plan, recipe)
            if not changes:
                return
            if not accept_changes:
                name, was, new = changes[0]
                rule = f"the plan in {self.path} was frozen on {state['frozen']} with {was!r}"
                raise InputError(name, new, rule, "use another --out, or --accept-changes: then it is a deviation")
            state["changes"] += [{"setting": name, "was": was, "now": new, "on": now} for name, was, new in changes]
        self.path.mkdir(parents=True, exist_ok=True)
        write_file(self.path / RECIPE, recipe)
        write_file(self.path / PLAN, config.dumps(plan))
        _write_json(self.path / STATE, state | {"sha256": digest(plan, recipe)})

    def state(self) -> dict[str, Any]:
        """SHA-256 of the plan, when it was frozen, and the changes since; InputError where the files do not match."""
        found = _read_json(self.path / STATE)
        if found.get("sha256") != digest(self.plan(), self.recipe()):
            rule = f"{PLAN} or {RECIPE} in {self.path} was edited after it was frozen"
            raise InputError("sha256", found.get("sha256"), rule, "restore it from a copy")
        return found

    def plan(self) -> ComparisonPlan:
        """The frozen plan."""
        return config.build(ComparisonPlan, config.read_toml(self.path / PLAN))

    def recipe(self) -> str:
        """The resolved recipe, as TOML."""
        config.read_toml(self.path / RECIPE)
        return (self.path / RECIPE).read_text(encoding="utf-8")

    def settings(self) -> dict[str, Any]:
        """The resolved recipe as dotted keys."""
        return config.leaves(tomllib.loads(self.recipe()))

    def block(self, block: TaskBlock) -> Path:
        """The folder of a block."""
        return self.path / block.name

    def notes(self, block: TaskBlock) -> dict[str, dict[str, Any]]:
        """Arm -> its plan, start and sittings; empty for a block that was not begun."""
        path = self.block(block) / BLOCK
        runs = _read_json(path).get("runs") if path.exists() else {}
        if not isinstance(runs, dict) or not all(isinstance(note, dict) for note in runs.values()):
            raise InputError("block", str(path), "it is damaged", "restore it from a copy")
        return runs

    def note(self, block: TaskBlock, arm: str, note: Mapping[str, Any]) -> None:
        """Keep the note of one arm."""
        runs = self.notes(block) | {arm: dict(note)}
        self.block(block).mkdir(parents=True, exist_ok=True)
        _write_json(self.block(block) / BLOCK, {"task": block.task, "seed": block.seed, "runs": runs})


def _differences(
    was: ComparisonPlan, was_recipe: str, now: ComparisonPlan, now_recipe: str
) -> list[tuple[str, Any, Any]]:
    """Setting, old and new value; what only the resolved recipe shows is named as a setting of the recipe."""
    found = []
    olds = (config.leaves(asdict(was)), config.leaves(tomllib.loads(was_recipe)))
    news = (config.leaves(asdict(now)), config.leaves(tomllib.loads(now_recipe)))
    for old, new, where in zip(olds, news, ("", "recipe: "), strict=True):
        names = sorted(old.keys() | new.keys())
        found += [(f"{where}{name}", old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("file", str(path), f"it cannot be read ({error})", "restore it from a copy") from None
    if not isinstance(found, dict):
        raise InputError("file", str(path), "it is damaged", "restore it from a copy")
    return found


def _write_json(path: Path, table: Mapping[str, Any]) -> None:
    write_file(path, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
