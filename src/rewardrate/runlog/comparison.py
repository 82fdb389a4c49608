"""The folder of a comparison of arms: its plan, frozen before the first run, and a folder for each task and seed.

    plan.toml        the plan, every setting
    recipe.toml      the recipe of all runs, resolved; task, seed, arm and start are those of each run
    recipe-NAME.toml the same for an arm with settings of its own
    plan.json        SHA-256 of these files, when they were frozen, what was changed afterwards
    TASK-sSEED/      a block: ARM is a run folder (NAME/ARM with settings of its own), ARM.log what its process printed
      block.json     for each arm: SHA-256 of plan and start, and the sittings it ran in

Blocks that were run on several machines are merged by copying their folders into one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from rewardrate import __version__, config
from rewardrate.config import AtLeast, KindUnlessGiven
from rewardrate.errors import InputError
from rewardrate.runlog.folder import WriterLock, write_file

PLAN, RECIPE, STATE, BLOCK = "plan.toml", "recipe.toml", "plan.json", "block.json"
Value = Literal["current", "latest-valid", "best-so-far"]
"A chain's value at a budget; `current`, the default, is the paper's: an invalid attempt counts 0."


@dataclass(frozen=True)
class ModelStart:
    """All runs begin from a model that is there."""

    kind: Literal["model"] = "model"
    name: str = ""
    "What policy.name takes: a folder, tiny, a hub id. Empty: the recipe's own policy."
    recipe: ClassVar[str] = ""  # nothing makes it
    settings: ClassVar[tuple[str, ...]] = ()

    def model(self, folder: Path) -> str:
        """The model that runs below the folder begin with."""
        return self.name


@dataclass(frozen=True)
class PretrainedStart:
    """All runs begin from a model that a pretraining recipe makes first, once in each folder: OUT/start."""

    kind: Literal["pretrain"] = "pretrain"
    recipe: str = "pretrain-start"
    "The pretraining recipe, by name or file."
    settings: tuple[str, ...] = ()
    "Settings of that recipe, as --set takes them."

    def model(self, folder: Path) -> str:
        """The one that is made there."""
        return str(folder / "start")


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
class ArmVariant:
    """An arm of the experiment with settings of its own."""

    name: str
    arm: str
    settings: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> ArmVariant:
        """From "NAME: ARM a.b=c ...", words as a shell splits them; InputError for what does not read so."""
        name, colon, rest = text.partition(":")
        try:
            words = shlex.split(rest)
        except ValueError:
            words = []
        if not colon or not words or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", name):
            near = 'for example "buffer-only: rpg objective.price_in=buffer"'
            raise InputError("variants", text, "it must read NAME: ARM a.b=c", near)
        for setting in words[1:]:
            config.parse_override(setting)
        return cls(name, words[0], tuple(words[1:]))


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
    variants: tuple[str, ...] = ()
    'Arms with settings of their own, "NAME: ARM a.b=c ...": "buffer-only: rpg objective.price_in=buffer".'
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
        named = [variant.name for variant in self.of_variants]
        for variant in self.of_variants:
            if named.count(variant.name) > 1 or variant.name not in self.arms:
                raise InputError("variants", variant.name, "it must stand in arms, and be described once")
        if self.stop_after is not None and self.stop_after > len(self.blocks):
            raise InputError("stop_after", self.stop_after, f"tasks and seeds make {len(self.blocks)} blocks")

    @property
    def of_variants(self) -> tuple[ArmVariant, ...]:
        """The arms with settings of their own."""
        return tuple(map(ArmVariant.read, self.variants))

    def variant(self, arm: str) -> ArmVariant:
        """An arm of the plan: which arm of the experiment it is, and its own settings."""
        return next((one for one in self.of_variants if one.name == arm), ArmVariant(arm, arm, ()))

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


def digest(*texts: str) -> str:
    """SHA-256 of a plan and its resolved recipes, as `config.dumps` writes them."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


class ComparisonFolder:
    """Reads and writes what stands beside the runs."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def frozen(self) -> bool:
        """Whether there is a plan in it."""
        return (self.path / STATE).exists()

    def begun(self) -> bool:
        """Whether there is a plan in it, or a block that was made elsewhere."""
        return self.frozen() or any(self.path.glob(f"*/{BLOCK}"))

    def freeze(
        self, plan: ComparisonPlan, recipe: str, own: Mapping[str, str] | None = None, *, accept_changes: bool = False
    ) -> None:
        """Write the plan down, once. Another one is refused: the first setting that differs is named.

        `recipe` is that of all runs; `own`: name of an arm with settings of its own -> its recipe. With
        `accept_changes` they replace the frozen ones, and every setting that changed is kept as a deviation.
        """
        if set(own or {}) != {one.name for one in plan.of_variants}:
            raise InputError("variants", sorted(own or {}), "each of the plan's needs its recipe, and no other")
        texts = {PLAN: config.dumps(plan), RECIPE: recipe}
        texts |= {recipe_file(one.name): (own or {})[one.name] for one in plan.of_variants}
        if self.frozen() and not self._half(texts) and not self._changes(plan, texts, accept_changes):
            return
        self.path.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(self.path)  # neither beside another call that freezes, nor under a sitting
        try:
            self._freeze(plan, texts, accept_changes)
        finally:
            lock.release()

    def _freeze(self, plan: ComparisonPlan, texts: Mapping[str, str], accept_changes: bool) -> None:
        """Killed at any point it can be repeated: a first plan is there once its state is, and a change is on record
        before the first file changes.
        """
        state: dict[str, Any] = {"frozen": _now(), "rewardrate": __version__, "changes": []}
        begun = self.frozen()
        if begun and not self._half(texts):
            changes = self._changes(plan, texts, accept_changes)
            state = _read_json(self.path / STATE)
            state |= {"changes": [*state.get("changes", []), *changes], "sha256": digest(*texts.values())}
            _write_json(self.path / STATE, state)
        for name, text in reversed(list(texts.items())):
            write_file(self.path / name, text)
        if not begun:
            _write_json(self.path / STATE, state | {"sha256": digest(*texts.values())})

    def _half(self, texts: Mapping[str, str]) -> bool:
        """Whether a change to these files was killed before the last of them was written."""
        return self._digest() != _read_json(self.path / STATE).get("sha256") == digest(*texts.values())

    def _changes(self, plan: ComparisonPlan, texts: Mapping[str, str], accept_changes: bool) -> list[dict[str, Any]]:
        """What another plan would change of the frozen one; InputError unless that is accepted."""
        state = _read_json(self.path / STATE) if accept_changes else self.state()
        edited = state.get("sha256") != self._digest()
        found = [("sha256", state.get("sha256"), "other files than were frozen")] if edited else []
        found += _differences(self.plan(), self._recipes(), plan, {name: texts[name] for name in texts if name != PLAN})
        if found and not accept_changes:
            name, was, new = found[0]
            rule = f"the plan in {self.path} was frozen on {state['frozen']} with {was!r}"
            raise InputError(name, new, rule, "use another --out, or --accept-changes: then it is a deviation")
        return [{"setting": name, "was": was, "now": new, "on": _now()} for name, was, new in found]

    def state(self) -> dict[str, Any]:
        """SHA-256 of the plan, when it was frozen, and the changes since; InputError where the files do not match."""
        found = _read_json(self.path / STATE)
        if found.get("sha256") != self._digest():
            rule = f"{PLAN} or a recipe in {self.path} was edited after it was frozen"
            remedy = "restore it from a copy, or --accept-changes: then it is a deviation"
            raise InputError("sha256", found.get("sha256"), rule, remedy)
        return found

    def plan(self) -> ComparisonPlan:
        """The frozen plan."""
        return config.build(ComparisonPlan, config.read_toml(self.path / PLAN))

    def recipe(self, arm: str = "") -> str:
        """The resolved recipe of an arm's runs, as TOML; that of all runs unless it has settings of its own."""
        return _read_toml_text(self.path / self.recipe_name(arm))

    def recipe_name(self, arm: str) -> str:
        """The file that `recipe` reads."""
        return recipe_file(arm) if arm in {one.name for one in self.plan().of_variants} else RECIPE

    def settings(self, arm: str = "") -> dict[str, Any]:
        """The resolved recipe of an arm's runs as dotted keys."""
        return config.leaves(tomllib.loads(self.recipe(arm)))

    def _recipes(self) -> dict[str, str]:
        """File name -> text of every recipe."""
        names = [RECIPE, *(recipe_file(one.name) for one in self.plan().of_variants)]
        return {name: _read_toml_text(self.path / name) for name in names}

    def _digest(self) -> str:
        return digest(_read_toml_text(self.path / PLAN), *self._recipes().values())

    def block(self, block: TaskBlock) -> Path:
        """The folder of a block."""
        return self.path / block.name

    def run(self, block: TaskBlock, arm: str) -> Path:
        """The run folder of an arm."""
        return self.block(block) / run_name(self.plan(), arm)

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


def run_name(plan: ComparisonPlan, arm: str) -> str:
    """Of an arm's run folder in its block: the arm, in a folder of its name where it has settings of its own."""
    known = plan.variant(arm)
    return arm if known.name == known.arm else f"{arm}/{known.arm}"


def recipe_file(name: str) -> str:
    """Name of the file that holds the recipe of an arm with settings of its own."""
    return f"recipe-{name}.toml"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _differences(
    was: ComparisonPlan, old_recipes: Mapping[str, str], now: ComparisonPlan, new_recipes: Mapping[str, str]
) -> list[tuple[str, Any, Any]]:
    """Setting, old and new value; what only a resolved recipe shows is named as a setting of that recipe."""
    pairs = [("", config.leaves(asdict(was)), config.leaves(asdict(now)))]
    for name in old_recipes.keys() & new_recipes.keys():  # one that came or went is a change of the plan's variants
        old, new = (config.leaves(tomllib.loads(recipes[name])) for recipes in (old_recipes, new_recipes))
        pairs.append((f"{name.removesuffix('.toml')}: ", old, new))
    found = []
    for where, old, new in sorted(pairs, key=lambda pair: pair[0]):
        names = sorted(old.keys() | new.keys())
        found += [(f"{where}{name}", old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
    return found


def _read_toml_text(path: Path) -> str:
    """The text of a file that is TOML."""
    if not path.exists():
        rule = "it belongs to the frozen plan, and is not there"
        raise InputError("file", str(path), rule, "copy it from where the plan was frozen")
    config.read_toml(path)
    return path.read_text(encoding="utf-8")


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
