"""The folder of a comparison, read: which blocks are complete, and what deviates from the plan.

Nothing is left out silently: a block that is not complete is not used, and every deviation is a sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewardrate.errors import InputError
from rewardrate.reports.run import Run, read
from rewardrate.runlog import RunLog
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan, TaskBlock, run_name
from rewardrate.runlog.schema import FILE

CONTAMINATED = 0.02  # share of a run's measurements above which the run is a deviation
OF_A_RUN = ("task", "seed", "price", "objective.arm", "policy.name", "loggers", "sandbox.address")
"Settings in which the runs of a comparison may differ; the start is compared by its weights."


@dataclass(frozen=True)
class BlockState:
    """One task and seed: the runs that were found, and what a reader must know of them."""

    block: TaskBlock
    runs: Mapping[str, Run]
    "Arm -> its run, where it can be read and is what the plan says."
    used: Mapping[str, float]
    "Arm -> share of the script seconds that it has used."
    deviations: tuple[str, ...]
    start: str
    "SHA-256 of the weights that the first arm began from."

    @property
    def complete(self) -> bool:
        """Whether every arm has reached T."""
        return all(arm in self.runs and share >= 1 for arm, share in self.used.items())


@dataclass(frozen=True)
class Survey:
    """Everything that a comparison's folder holds."""

    plan: ComparisonPlan
    state: Mapping[str, Any]
    final: float
    "T: script seconds per chain."
    blocks: tuple[BlockState, ...]
    strays: tuple[str, ...]
    "Deviations that are no block's: changes of the plan, folders that it does not name."

    @property
    def complete(self) -> tuple[BlockState, ...]:
        """The blocks that the analysis uses."""
        return tuple(block for block in self.blocks if block.complete)

    @property
    def finished(self) -> bool:
        """Whether the stopping rule is met."""
        return len(self.complete) >= self.plan.needed

    @property
    def deviations(self) -> tuple[str, ...]:
        """All of them; those of a complete block say that it is used, the others that it is not."""
        found = list(self.strays)
        for one in self.blocks:
            found += [f"{one.block}: {words} ({'used' if one.complete else 'not used'})" for words in one.deviations]
        return tuple(found)


def survey(folder: ComparisonFolder) -> Survey:
    """Read every block that the plan names, and look for what it does not name."""
    plan, state = folder.plan(), folder.state()
    settings = {arm: folder.settings(arm) for arm in plan.arms}
    changes = state["changes"]
    strays = [f"the plan was changed on {one['on']}: {one['setting']} from {one['was']!r} to {one['now']!r}"
              for one in changes]  # fmt: skip
    blocks = tuple(_block(folder, plan, block, state["sha256"], settings) for block in plan.blocks)
    notes = [note for block in plan.blocks for note in folder.notes(block).values()]
    began = min((str(sitting["began"]) for note in notes for sitting in note.get("sittings", ())), default="")
    if began and began < state["frozen"]:
        strays.append(f"the plan in this folder was written down on {state['frozen']}, the first run began on {began}")
    strays += _strays(folder, plan)
    return Survey(plan, state, plan.script_seconds / settings[plan.baseline]["batch"], blocks, tuple(strays))


def _strays(folder: ComparisonFolder, plan: ComparisonPlan) -> list[str]:
    """Runs in the folder that the plan does not name."""
    known = {f"{block.name}/{run_name(plan, arm)}" for block in plan.blocks for arm in plan.arms}
    runs = [path.parent for depth in ("*/*", "*/*/*") for path in folder.path.glob(f"{depth}/{FILE}")]
    names = sorted(path.relative_to(folder.path).as_posix() for path in runs)
    return [f"{name}: the plan does not name it (not used)" for name in names if name not in known]


def _block(
    folder: ComparisonFolder,
    plan: ComparisonPlan,
    block: TaskBlock,
    sha256: str,
    settings: Mapping[str, Mapping[str, Any]],
) -> BlockState:
    notes = folder.notes(block)
    begun = any(RunLog.exists(folder.run(block, arm)) for arm in plan.arms)
    runs: dict[str, Run] = {}
    used: dict[str, float] = {}
    words: list[str] = []
    for arm in plan.arms:
        used[arm] = 0.0
        try:
            place = folder.run(block, arm)
            run = replace(_light(read(place)), called=arm) if RunLog.exists(place) else None
        except InputError as error:
            words.append(f"{arm}: {error}")
            continue
        if run is None:
            words += [f"{arm} is missing"] if begun else []
            continue
        used[arm] = min(1.0, run.steps[-1].script_seconds / plan.script_seconds)
        wrong = _another(run, block, plan.variant(arm).arm)
        if wrong:
            words.append(f"{arm}: {wrong}")
            continue
        runs[arm] = run
        if used[arm] < 1:
            words.append(f"{arm} ended, or stands, at {used[arm]:.0%} of its script seconds")
        words += [f"{arm}: {one}" for one in _of_run(run, notes.get(arm), sha256, settings[arm])]
    starts = [str(notes[arm].get("start")) for arm in runs if arm in notes]
    words += _of_block(runs, notes, starts)
    return BlockState(block, runs, used, tuple(words), starts[0] if starts else "")


def _another(run: Run, block: TaskBlock, arm: str) -> str:
    """Why a run is not the one that its folder says; empty if it is."""
    wanted = {"arm": arm, "task": block.task, "seed": str(block.seed)}
    wrong = [f"{name} {run.about.get(name)!r}" for name, value in wanted.items() if run.about.get(name) != value]
    return f"its record says {', '.join(wrong)}" if wrong else ""


def _of_run(run: Run, note: Mapping[str, Any] | None, sha256: str, settings: Mapping[str, Any]) -> list[str]:
    """Deviations of one run."""
    found = ["there is no note of its start and plan"] if note is None else []
    if note is not None and note.get("plan") != sha256:
        found.append(f"run under another plan ({str(note.get('plan'))[:12]})")
    names = sorted(name for name in settings.keys() | run.settings.keys() if name not in OF_A_RUN)
    changed = [name for name in names if settings.get(name) != run.settings.get(name)]
    found += [f"other settings: {', '.join(changed)}"] if changed else []
    share = sum(attempt.contaminated for attempt in run.attempts) / len(run.attempts)
    if share > CONTAMINATED:
        found.append(f"{share:.1%} of its measurements shared their cores with other work")
    return found


def _of_block(runs: Mapping[str, Run], notes: Mapping[str, Mapping[str, Any]], starts: Sequence[str]) -> list[str]:
    """Deviations of a block: its arms were not run alike."""
    found = [f"its arms began from {len(set(starts))} different starts"] if len(set(starts)) > 1 else []
    of_note: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "runs side by side": lambda sitting: sitting.get("side_by_side"),
        "slots": lambda sitting: sitting.get("slots"),
    }
    sittings = [sitting for arm in runs for sitting in notes.get(arm, {}).get("sittings", ())]
    for words, part in of_note.items():
        values = sorted({str(part(sitting)) for sitting in sittings})
        found += [f"its arms were run with {' and '.join(values)} {words}"] if len(values) > 1 else []
    for name in ("rewardrate", "commit", "machine"):
        values = sorted({run.about.get(name, "") for run in runs.values()})
        found += [f"its arms differ in {name}: {', '.join(values)}"] if len(values) > 1 else []
    return found


def _light(run: Run) -> Run:
    """The run without its texts, of which many runs would fill the memory; a script is the digest of itself."""

    def digest(text: str) -> str:
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

    rows = (replace(row, reply="", output="", message="", code=digest(row.code)) for row in run.attempts)
    return replace(run, attempts=tuple(rows))
