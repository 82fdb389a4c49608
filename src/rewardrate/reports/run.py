"""Run folders, read: one run, and the runs of one task side by side with their comparison."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.reports.evaluation import (
    COLUMNS,
    Chains,
    Comparison,
    Metric,
    Paired,
    Value,
    chains,
    compare,
    efficiency,
    equal_budget,
    held_out,
)
from rewardrate.reports.soundness import check
from rewardrate.runlog import AttemptRow, EventRow, RunLog, StepRow, best
from rewardrate.runlog.rows import FINAL_EVALUATION

LONGEST_CONFIG = 64_000  # characters; reading TOML takes quadratic time in the length of a dotted key
DEPTH = 4  # folders below the one that is named in which runs are looked for
REPORTED = re.compile(r"attempt \d+: reward (-?\d+(?:\.\d+)?)")  # the event of a run's final evaluation


@dataclass(frozen=True, eq=False)
class Run:
    """One run, read once."""

    folder: Path
    about: Mapping[str, str]
    attempts: tuple[AttemptRow, ...]
    steps: tuple[StepRow, ...]
    chains: Chains
    events: tuple[EventRow, ...] = ()
    config_text: str = ""
    under_way: tuple[int, int] = (0, 0)
    "Scripts of the step in progress: how many have ended, of how many. Of a stream, attempts that are in no step."
    called: str = ""
    "Its arm, as the plan of a comparison names it."

    @property
    def arm(self) -> str:
        """Which arm of the experiment: rpg, horizon, fixed or vanilla."""
        return self.about.get("arm", "rpg")

    @property
    def label(self) -> str:
        """The arm, the number of a fixed price, and the price scale where it is neither free nor the paper's.

        In a comparison what its plan calls it.
        """
        if self.called:
            return self.called
        scale, number = self.price_scale, _number(self.settings.get("reward_per_second"))
        name = self.arm if self.arm != "fixed" or number is None else f"fixed {number:g}"
        return name if self.arm == "vanilla" or scale == 1 else f"{name} x {scale:g}"

    @property
    def price_scale(self) -> float:
        """Share of the rate that was charged: 0 for vanilla, 1 unless the config says otherwise."""
        if self.arm == "vanilla":
            return 0.0
        scale = _number(self.settings.get("objective.price_scale"))
        return 1.0 if scale is None else scale

    @property
    def task(self) -> str:
        """The task's name; empty if the record does not say."""
        return self.about.get("task", "")

    @property
    def seed(self) -> str:
        """The seed, as the record writes it."""
        return self.about.get("seed", "")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The config as dotted keys; empty where it is missing, no TOML, or longer than any of ours."""
        if len(self.config_text) > LONGEST_CONFIG:
            return {}
        try:
            return config.leaves(tomllib.loads(self.config_text))
        except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
            return {}

    @cached_property
    def charged(self) -> tuple[AttemptRow, ...]:
        """Attempts that are charged: all but sandbox failures."""
        return tuple(attempt for attempt in self.attempts if attempt.charged)

    @cached_property
    def valid(self) -> tuple[AttemptRow, ...]:
        """Attempts that count."""
        return tuple(attempt for attempt in self.attempts if attempt.valid)

    @cached_property
    def by_step(self) -> Mapping[int, list[AttemptRow]]:
        """Step -> its charged attempts."""
        found: dict[int, list[AttemptRow]] = {}
        for attempt in self.charged:
            found.setdefault(attempt.step, []).append(attempt)
        return found

    @cached_property
    def budget(self) -> dict[str, float]:
        """The limits that the run has: those of its recipe, or of the command that resumed it last."""
        given = {name: self.settings.get(f"budget.{name}") for name in ("steps", "script_seconds", "wall_seconds")}
        for event in self.events:
            name, _, value = event.message.partition(" = ")
            if event.kind == "budget" and name in given:
                given[name] = value
        limits = {name: _number(value) for name, value in given.items()}
        return {name: limit for name, limit in limits.items() if limit is not None}

    @property
    def ended(self) -> bool:
        """Whether one of its limits is reached, so that no further step is made."""
        used = {
            "steps": len(self.steps),
            "script_seconds": self.steps[-1].script_seconds,
            "wall_seconds": sum(sum(step.phases.values()) for step in self.steps),
        }
        return any(used[name] >= limit for name, limit in self.budget.items())

    @property
    def stated_budget(self) -> float | None:
        """Script seconds per chain that the recipe gave the run; None where it gave steps or wall time alone."""
        total = self.budget.get("script_seconds")
        return None if total is None else total / self.chains.total.size

    @property
    def held_out_reward(self) -> float | None:
        """Reward of the run's best script on the report split, by which no script was chosen; None without one."""
        found = [REPORTED.match(event.message) for event in self.events if event.kind == FINAL_EVALUATION]
        return _number(found[-1][1]) if found and found[-1] else None

    @cached_property
    def best(self) -> AttemptRow | None:
        """The best attempt, as everywhere: the one whose script the final evaluation runs."""
        return best(self.attempts)

    @property
    def quickest(self) -> AttemptRow | None:
        """The attempt with the highest reward per second."""
        return max(self.valid, key=lambda attempt: attempt.reward / max(attempt.seconds, 1e-9), default=None)

    @cached_property
    def higher_is_better(self) -> bool | None:
        """Which way the task's own metric points; None if unknown."""
        direction = self.about.get("direction") or _direction(self.task)
        return None if direction is None else direction == "maximize"

    def chains_of(self, metric: Metric) -> Chains:
        """The chains by reward or by score; InputError for a score whose direction is not known."""
        if metric == "reward":
            return self.chains
        if self.higher_is_better is None:
            rule = "which way its metric points is not known"
            raise InputError("task", self.task, rule, "compare the rewards instead")
        return chains(_columns(self.attempts), metric="score", higher_is_better=self.higher_is_better)


@dataclass(frozen=True, eq=False)
class Experiment:
    """The runs of one task on one clock: arms side by side, repetitions by seed."""

    task: str
    runs: tuple[Run, ...]
    arms: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    "Label -> its repetitions: rpg first, then other prices, vanilla last."
    baseline: str = "vanilla"
    "Label of the arm that the others are compared with."
    planned: float | None = None
    "T, where a plan states it."

    @property
    def higher_is_better(self) -> bool | None:
        """Which way the task's own metric points; None if unknown."""
        return self.runs[0].higher_is_better

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What can be compared: the reward, and the score if its direction is known and something was graded."""
        graded = any(attempt.score is not None for run in self.runs for attempt in run.valid)
        return ("reward", "score") if self.higher_is_better is not None and graded else ("reward",)

    @cached_property
    def contrasts(self) -> Mapping[str, tuple[tuple[Run, Run], ...]]:
        """Label of an arm -> (its run, the baseline's) of every repetition with both; not arms without one."""
        found = {}
        for label in self.arms:
            priced, vanilla = _keyed(self.arms[label], self.arms.get(self.baseline, ()))
            pairs = tuple((priced[key], vanilla[key]) for key in sorted(priced, key=_order) if key in vanilla)
            if pairs and label != self.baseline:
                found[label] = pairs
        return found

    @property
    def first(self) -> str:
        """The arm that is compared with the baseline unless another is asked for: rpg, where there is a pair of it."""
        return next(iter(self.contrasts), "rpg")

    @property
    def pairs(self) -> tuple[tuple[Run, Run], ...]:
        """The pairs of the first arm."""
        return self.contrasts.get(self.first, ())

    @cached_property
    def stated(self) -> bool:
        """Whether T is a budget of script seconds that all compared runs were given and have used up."""
        if self.planned is not None:
            return True
        budgets = {run.stated_budget for run in self._compared}
        if len(budgets) > 1 or None in budgets:
            return False
        return self._used >= 0.999 * float(next(iter(budgets)) or 0)

    @cached_property
    def final(self) -> float:
        """T, in script seconds per chain: the stated budget, else what every compared run has used on average."""
        if self.planned is not None:
            return self.planned
        return float(self._compared[0].stated_budget or 0) if self.stated else self._used

    @property
    def _used(self) -> float:
        return equal_budget([run.chains for run in self._compared])

    @property
    def _compared(self) -> Sequence[Run]:
        return [run for pairs in self.contrasts.values() for pair in pairs for run in pair] or self.runs

    def compare(self, metric: Metric = "reward", value: Value = "current", arm: str | None = None) -> Comparison | None:
        """An arm and the baseline at the same budgets, over the repetitions that have both; None if there is none."""
        pairs = self.contrasts.get(arm or self.first)
        if pairs is None or self.final <= 0:
            return None  # or not one attempt that used any time
        return compare(*_chains(pairs, metric), value=value, final=self.final)

    def efficiency(self, arm: str | None = None) -> dict[str, Paired]:
        """Reward per second and what else the arms' time brought, by name; empty without a pair of runs."""
        pairs = self.contrasts.get(arm or self.first)
        if pairs is None or self.final <= 0:
            return {}
        rewards = [(priced.held_out_reward, vanilla.held_out_reward) for priced, vanilla in pairs]
        return efficiency(*_chains(pairs, "reward"), self.final) | {"held_out_reward": held_out(rewards)}


def read(folder: Path) -> Run:
    """A run from its folder; InputError if it holds none, or one without a finished step."""
    with RunLog.open(folder, read_only=True) as log, log.snapshot():
        steps, attempts, about = tuple(log.steps()), tuple(log.attempts()), log.about()
        events, pending = tuple(log.events()), log.pending()
        if not steps or not attempts:
            raise InputError("run", str(folder), "it has no finished step yet", "wait for the first one")
        try:
            config_text = log.config_text()
        except InputError:
            config_text = ""  # the log alone is enough for a page
    check(Path(folder), about, steps, attempts, events)
    under_way = sum(row.outcome is not None for row in pending), len(pending)
    found = chains(_columns(attempts))
    return Run(
        folder=Path(folder),
        about=about,
        attempts=attempts,
        steps=steps,
        chains=found,
        events=events,
        config_text=config_text,
        under_way=under_way,
    )


def folders(folder: Path) -> list[Path]:
    """The run in a folder, or those below it (rpg and vanilla, by task, by seed), in order of their paths."""
    folder = Path(folder)
    if RunLog.exists(folder):
        return [folder]
    below: list[Path] = []
    level = [folder]
    for _ in range(DEPTH):
        level = [path for place in level for path in _inside(place)]
        below += [path for path in level if RunLog.exists(path)]
        level = [path for path in level if not RunLog.exists(path) and not path.is_symlink()]
    if not below:
        raise InputError(
            "run", str(folder), "there is no run in it, nor in a folder below it", "see docs/run-folder.md"
        )
    return sorted(below)


def find(folder: Path) -> list[Run]:
    """Every run of `folders(folder)`, read; InputError for the first that cannot be."""
    return [read(path) for path in folders(folder)]


def gather(places: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs of several folders, and a line for each that is left out; InputError if not one can be read.

    The only one that is named must be readable; of several, or of those found below a folder, some may be at their
    first step or damaged.
    """
    found: dict[Path, Run] = {}
    problems: list[str] = []
    for place in places:
        paths = folders(place)
        for path in paths:
            if path.resolve() in found:
                continue
            try:
                found[path.resolve()] = read(path)
            except InputError as error:
                if len(paths) == len(places) == 1:
                    raise
                problems.append(str(error))
    if not found:
        raise InputError("run", ", ".join(map(str, places)), f"no run in it can be read: {problems[0]}")
    return list(found.values()), problems


def experiments(runs: Sequence[Run], *, baseline: str = "vanilla", planned: float | None = None) -> list[Experiment]:
    """Runs by task and clock, in order of first appearance."""
    kinds: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.task, run.about.get("clock", "")), []).append(run)
    clocks = {task: sum(kind[0] == task for kind in kinds) for task, _ in kinds}
    made = []
    for (task, clock), members in kinds.items():
        labels = sorted({run.label for run in members}, key=lambda label: (label != "rpg", label == "vanilla", label))
        arms = {
            label: tuple(sorted((run for run in members if run.label == label), key=lambda run: _order(run.seed)))
            for label in labels
        }
        name = task or members[0].folder.resolve().parent.name
        ordered = tuple(run for label in labels for run in arms[label])
        name = f"{name} ({clock} clock)" if clocks[task] > 1 else name
        made.append(Experiment(name, ordered, arms, baseline, planned))
    return made


def numbers(run: Run) -> dict[str, float]:
    """The key numbers of one run. Denominators are the charged attempts."""
    charged, valid = run.charged, [attempt for attempt in run.charged if attempt.valid]
    reward, seconds = (sum(getattr(attempt, name) for attempt in rows) for name, rows in
                       (("reward", valid), ("seconds", charged)))  # fmt: skip
    return {
        "steps": len(run.steps),
        "attempts": len(run.attempts),
        "valid_share": len(valid) / max(1, len(charged)),
        "reward_per_attempt": reward / max(1, len(charged)),
        "seconds_per_attempt": seconds / max(1, len(charged)),
        "reward_per_second": reward / seconds if seconds > 0 else 0.0,
        "best_reward": 0.0 if run.best is None else run.best.reward,
        "rate": run.steps[-1].rate.rate,
        "script_seconds": run.steps[-1].script_seconds,
    }


def comparison(runs: Sequence[Run]) -> Comparison | None:
    """Both arms at the same budgets, repetitions paired by seed; None unless every seed has both.

    Runs of different tasks or clocks are refused: their seconds and rewards are not of one kind.
    """
    kinds = {(run.about.get("task"), run.about.get("clock")) for run in runs}
    if len(kinds) > 1:
        raise InputError("runs", sorted(map(str, kinds)), "they are of different tasks or clocks", "report each alone")
    (experiment,) = experiments(runs)
    return experiment.compare() if len(runs) == 2 * len(experiment.pairs) else None


def differing(experiment: Experiment) -> list[str]:
    """Settings, besides arm, price scale, seed and budget, that are not the same in every run of an experiment."""
    free = ("budget.", "objective.arm", "objective.price_scale", "price", "reward_per_second", "seed")
    names = sorted({name for run in experiment.runs for name in run.settings if not name.startswith(free)})
    return [name for name in names if len({repr(run.settings.get(name)) for run in experiment.runs}) > 1]


def _chains(pairs: Sequence[tuple[Run, Run]], metric: Metric) -> tuple[list[Chains], list[Chains]]:
    """The chains of both arms, repetition by repetition."""
    return [priced.chains_of(metric) for priced, _ in pairs], [vanilla.chains_of(metric) for _, vanilla in pairs]


def _inside(folder: Path) -> list[Path]:
    """The folders in a folder; none where it cannot be read."""
    try:
        return [path for path in sorted(folder.iterdir()) if path.is_dir()]
    except OSError:
        return []


def _columns(attempts: Sequence[AttemptRow]) -> dict[str, list[Any]]:
    return {name: [getattr(attempt, name) for attempt in attempts] for name in COLUMNS}


def _keyed(*arms: Sequence[Run]) -> list[dict[Any, Run]]:
    """Repetitions of each arm by seed; where an arm ran a seed twice, by folder and seed."""
    if all(len({run.seed for run in arm}) == len(arm) for arm in arms):
        return [{run.seed: run for run in arm} for arm in arms]
    return [{(str(run.folder.resolve().parent), run.seed): run for run in arm} for arm in arms]


def _order(key: Any) -> tuple[int, str]:
    """Seeds in order of number, whatever else is between them."""
    text = str(key)
    return (int(text) if text.isdecimal() and len(text) < 20 else -1, text)


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a record holds."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _direction(task: str) -> str | None:
    """Which way the metric points, for the tasks that come with the package and those of MLE-Bench Lite."""
    from rewardrate.environments.mle import folder, lite

    try:
        if task in folder.shipped():
            return folder.load(task).direction
        return lite.find(task.removeprefix(folder.BENCH)).direction if task.startswith(folder.BENCH) else None
    except (InputError, ImportError, OSError):
        return None
