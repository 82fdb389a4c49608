"""The runs of a comparison before they begin: their recipe, their start, how long each will take, which blocks fit."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from rewardrate import config
from rewardrate.errors import InputError, did_you_mean
from rewardrate.policies.settings import SHIPPED
from rewardrate.runlog import RunLog
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan, ModelStart, TaskBlock, run_name
from rewardrate.sandbox import cores
from rewardrate.training.recipe import ArmName, Recipe

ARMS: tuple[ArmName, ...] = ("vanilla", "rpg", "horizon")
OWN = {
    "task": "tasks",
    "seed": "seeds",
    "budget.script_seconds": "script_seconds",
    "objective.arm": "arms",
    "price": "arms",
    "policy.name": "start.name",
}
"Setting of the recipe -> the key of the plan that says it."
ALIKE = ("batch", "budget.", "sandbox.", "environment.")
"Settings that are the same for all arms of a comparison: what is attempted, how it is timed, and what T is."


def example() -> ComparisonPlan:
    """A plan to begin with."""
    return ComparisonPlan(
        hypothesis="rpg has more reward at T than vanilla. Refuted if the pooled interval does not lie above 0.",
        recipe="laptop",
        tasks=("diamonds", "digits8x8", "elec-demand"),
        script_seconds=480.0,
        settings=("budget.steps=1000", "sandbox.slots=2"),
    )


def resolve(plan: ComparisonPlan) -> Recipe:
    """The recipe of the plan's runs: that of the first task and seed. InputError for what cannot be run."""
    return recipes(plan)[""]


def recipes(plan: ComparisonPlan) -> dict[str, Recipe]:
    """The recipe of the plan's runs, under "", and of every arm with settings of its own by its name."""
    for arm in map(plan.variant, plan.arms):
        if arm.arm not in ARMS:
            near = did_you_mean(arm.arm, [*ARMS, *(one.name for one in plan.of_variants)])
            raise InputError("arms" if arm.name == arm.arm else "variants", arm.arm, "there is no such arm", near)
        if arm.settings and arm.name in ARMS:
            raise InputError("variants", arm.name, "that is an arm without settings of its own", "choose another name")
        for setting in arm.settings:
            if config.parse_override(setting)[0].startswith(ALIKE):
                rule = "it is the same for all arms, else they cannot be compared"
                raise InputError("variants", setting, rule, "set it in settings")
    found = {
        arm: _recipe(plan, own) for arm, own in [("", ()), *((one.name, one.settings) for one in plan.of_variants)]
    }
    recipe = found[""]
    if not recipe.policy.weights and plan.start != ModelStart():
        rule = f"a policy of the kind {recipe.policy.kind} begins with no weights of ours"
        raise InputError("start", plan.start.kind, rule, "leave it out")
    return found


def _recipe(plan: ComparisonPlan, own: Sequence[str]) -> Recipe:
    for setting in (*plan.settings, *own):
        name = config.parse_override(setting)[0]
        if name in OWN:
            where = "variants" if setting in own else "settings"
            raise InputError(where, setting, "the plan has a key of its own for it", f"set {OWN[name]}")
    first = [*plan.settings, *own, f"task={json.dumps(plan.tasks[0], ensure_ascii=False)}", f"seed={plan.seeds[0]}"]
    given = [*first, f"budget.script_seconds={plan.script_seconds!r}"]
    return config.load(Recipe, config.find_recipe(plan.recipe), given).with_arm("rpg")


def freeze(folder: ComparisonFolder, plan: ComparisonPlan, *, accept_changes: bool = False) -> dict[str, Recipe]:
    """Freeze a plan with its recipes, which are given back (`recipes`)."""
    found = recipes(plan)
    texts = {name: config.dumps(recipe) for name, recipe in found.items()}
    folder.freeze(plan, texts.pop(""), texts, accept_changes=accept_changes)
    return found


def settings_of(plan: ComparisonPlan, recipe: Recipe, folder: Path) -> tuple[str, ...]:
    """What every run is given beside task, seed and arm: the start."""
    key = recipe.policy.weights
    if not key:
        return ()
    name = plan.start.model(folder) or getattr(recipe.policy, key)
    return (f"policy.{key}={json.dumps(name, ensure_ascii=False)}",)


def start_digest(name: str) -> str:
    """SHA-256 of a model's weights; of what is not on this machine the name, and so of a model behind an endpoint."""
    place = Path(SHIPPED.get(name, name)).expanduser()
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place] if place.is_file() else []
    if place.is_dir() and not files:
        raise InputError("start", name, "there are no weights in it (*.safetensors)", "name the folder of a model")
    if not files:
        return f"name:{name}"
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                found.update(part)
    return found.hexdigest()


def used(folder: Path) -> tuple[float, float]:
    """Script seconds and wall seconds of a run so far; 0 and 0 if there is none."""
    if not RunLog.exists(folder):
        return 0.0, 0.0
    with RunLog.open(folder, read_only=True) as log:
        steps = log.steps()
    return (steps[-1].script_seconds if steps else 0.0), sum(sum(step.phases.values()) for step in steps)


def side_by_side(recipe: Recipe, jobs: int | None, script_cores: int) -> tuple[int, int]:
    """How many runs at once, and the slots of each. Cores are owned by one script: more would wait for one another."""
    if recipe.sandbox.executor != "pool":
        return jobs or 1, recipe.sandbox.slots or 1
    whole = len(cores.usable()) // script_cores
    if recipe.sandbox.slots is None:
        if jobs is not None and jobs > 1:
            rule = "the plan states no sandbox.slots, so each run takes all cores"
            raise InputError("--jobs", jobs, rule, f'add "sandbox.slots={max(1, whole // jobs)}" to settings')
        return 1, max(1, whole)
    most = max(1, whole // recipe.sandbox.slots)
    if jobs is not None and jobs > most:
        rule = f"{recipe.sandbox.slots} slots each: this machine has cores for {most}"
        raise InputError("--jobs", jobs, rule, "ask for fewer, or for fewer slots in the plan")
    return jobs or most, recipe.sandbox.slots


def check(recipe: Recipe, tasks: Iterable[str], jobs: int | None, start: str | None = None) -> None:
    """InputError for a task or a start that is not there, or more runs at once than this machine has cores for.

    Data of the tasks is prepared.
    """
    if start is not None and recipe.policy.weights:
        recipe.policy.check_weights(start or getattr(recipe.policy, recipe.policy.weights))
    for task in dict.fromkeys(tasks):
        setup = recipe.environment.setup(task, recipe.sandbox.clock)
        side_by_side(recipe, jobs, setup.cores)


def guessed_pace(slots: int) -> float:
    """Wall seconds for one script second of a run: slots wait for the last script of a step, the more the more of them.

    1.04 was measured with one slot and 1.5 to 1.7, over five, with five (results/2026-11-20-deadline-pilot).
    """
    return (0.94 + 0.1 * slots) / slots


class RunTimes:
    """What each run has used, and how long the rest will take.

    By the pace of the runs of the same task so far, else of all runs, else `guessed_pace`.
    """

    def __init__(self, folder: ComparisonFolder, plan: ComparisonPlan, slots: int) -> None:
        self.folder, self.plan, self.slots = folder, plan, slots
        self.seen = {(block, arm): (0.0, 0.0) for block in plan.blocks for arm in plan.arms}
        for block, arm in self.seen:
            self.look(block, arm)

    def look(self, block: TaskBlock, arm: str) -> float:
        """Read what a run has used; its share of the budget. A log that cannot be read this moment changes nothing."""
        with contextlib.suppress(InputError):
            self.seen[block, arm] = used(self.folder.path / block.name / run_name(self.plan, arm))
        return min(1.0, self.seen[block, arm][0] / self.plan.script_seconds)

    def complete(self, block: TaskBlock) -> bool:
        """Whether all runs of a block have reached T."""
        return all(self.run(block, arm) == 0 for arm in self.plan.arms)

    def run(self, block: TaskBlock, arm: str) -> float:
        """Expected wall seconds until a run reaches T; 0 if it has."""
        return max(0.0, self.plan.script_seconds - self.seen[block, arm][0]) * self._pace(block.task)

    def _pace(self, task: str) -> float:
        """Wall seconds for one script second of a run."""
        for of_task in (True, False):
            pairs = [pair for (block, _), pair in self.seen.items() if block.task == task or not of_task]
            script, wall = (math.fsum(column) for column in zip(*pairs, strict=True))
            if script > 0 and wall > 0:
                return wall / script
        return guessed_pace(self.slots)


def fitting(todo: Sequence[Sequence[float]], width: int, left: float, busy: Iterable[float] = ()) -> int:
    """How many blocks, from the first on, end in time. `todo`: seconds that each run of a block will take.

    Runs begin in order, each as soon as one of `width` places is free; `busy` are seconds that those under way still
    take. A block that is too long is not passed over: that would choose tasks by their speed.
    """
    free = _places(width, busy)
    for number, runs in enumerate(todo):
        if runs and _fill(free, runs) > left:
            return number
    return len(todo)


def makespan(runs: Iterable[float], width: int, busy: Iterable[float] = ()) -> float:
    """Seconds until the last of the runs has ended."""
    free = _places(width, busy)
    return max([*free, _fill(free, runs)])


def _places(width: int, busy: Iterable[float]) -> list[float]:
    """When each place becomes free."""
    taken = sorted(busy)
    return [*([0.0] * (width - len(taken))), *taken]


def _fill(free: list[float], runs: Iterable[float]) -> float:
    """Let runs take the places one after the other; when the last of these runs ends."""
    heapq.heapify(free)
    ends = [0.0]
    for seconds in runs:
        ends.append(free[0] + seconds)
        heapq.heapreplace(free, ends[-1])
    return max(ends)
