"""What a comparison of arms over tasks and seeds came to: every arm less the baseline, over the complete blocks.

The estimate is the mean over tasks of the mean over seeds of block differences. Chains of a run share a policy and a
buffer and are no repetitions: they are never drawn. Shapes: D bootstrap draws, K tasks, B budgets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from rewardrate.reports.evaluation import NEAR_END, Interval, budget_grid, curve, places, totals
from rewardrate.reports.result import CHOICES, QUANTITIES
from rewardrate.reports.run import Experiment, Run, experiments
from rewardrate.reports.survey import BlockState, Survey
from rewardrate.reports.tables import TaskTable, interval, sign_test
from rewardrate.reports.tables import table as table_of
from rewardrate.runlog.comparison import TaskBlock, Value

Array = NDArray[np.float64]
DRAWS = 10_000
ENOUGH = 5  # tasks of two seeds, from which the interval covers the truth in nine studies of ten (docs/compare.md)
AT_T: dict[str, Value] = {f"reward_at_T_{value.replace('-', '_')}": value for value in get_args(Value)}
WORDS = {name: f"reward at T, {CHOICES[value]}" for name, value in AT_T.items()} | QUANTITIES
WORDS["most_frequent_script"] = "share of the most frequent script among valid attempts from 0.8 T to T"


@dataclass(frozen=True)
class Pooled:
    """One quantity of two arms over all tasks."""

    name: str
    arm: float | None
    against: float | None
    difference: Interval
    tasks: Mapping[str, Mapping[int, float]]
    "Task -> seed -> difference of the block."

    @property
    def by_task(self) -> dict[str, float]:
        """Task -> mean over its seeds."""
        return {task: float(np.mean(list(seeds.values()))) for task, seeds in self.tasks.items()}

    @property
    def wins(self) -> int:
        """Tasks on which the arm has more."""
        return sum(value > 0 for value in self.by_task.values())

    @property
    def losses(self) -> int:
        """Tasks on which it has less."""
        return sum(value < 0 for value in self.by_task.values())

    @property
    def p(self) -> float:
        """Exact two-sided sign test over tasks."""
        return sign_test(self.wins, self.losses)


@dataclass(frozen=True)
class Contrast:
    """One arm less another."""

    arm: str
    against: str
    quantities: Mapping[str, Pooled]
    "Name -> both arms; the primary metric is the first."
    table: TaskTable
    "Task by task, and the trimmed mean of the relative improvement."
    experiments: Sequence[Experiment]
    without_deviations: Interval | None
    "The primary difference without blocks that deviate from the plan; None if none does, or none is left."
    by_start: Interval | None
    "The same with starts drawn in place of tasks: blocks that share one may resemble each other. None: one start."
    budgets: Array
    curve: tuple[Array, Array, Array]
    "B, B and B: the pooled difference at every budget, its lower and its upper bound."

    @property
    def primary(self) -> Pooled:
        """The metric of the plan."""
        return next(iter(self.quantities.values()))

    @property
    def name(self) -> str:
        """In words: rpg less vanilla."""
        return f"{self.arm} less {self.against}"

    @property
    def headline(self) -> list[str]:
        """What came out, in sentences."""
        found, tasks, blocks = self.primary, len(self.primary.tasks), sum(map(len, self.primary.tasks.values()))
        sense = {1: "lies above 0", -1: "lies below 0", 0: "contains 0: no difference is shown"}
        known = f"The 95 % interval {sense[found.difference.sign]}." if found.difference.low is not None else ""
        if known and tasks < ENOUGH:
            known += f" With fewer than {ENOUGH} tasks it is too narrow."
        per_second, trimmed = self.quantities["reward_per_second"], self.table.trimmed
        improvement = "Relative improvement, mean over tasks without the best and the worst"
        if self.table.without_improvement:
            improvement += f" and {counted(len(self.table.without_improvement), 'task')} on which {self.against} has 0"
        return [
            f"{self.name}: {interval(found.difference, sign=True)} in {WORDS[found.name]}; mean over "
            f"{counted(tasks, 'task')} and {counted(blocks, 'block')}. {known}".strip(),
            f"{self.arm} is ahead on {found.wins} of {counted(tasks, 'task')} and behind on {found.losses} (exact sign "
            f"test: p = {found.p:.2g}). "
            + (f"{improvement}: {interval(trimmed, 1, sign=True)} %. " if trimmed.value is not None else "")
            + f"Difference in reward per second: {interval(per_second.difference, sign=True)}.",
        ]


@dataclass(frozen=True)
class ComparisonResult:
    """What the complete blocks of a survey came to."""

    survey: Survey

    @cached_property
    def runs(self) -> Mapping[tuple[TaskBlock, str], dict[str, float]]:
        """(block, arm) -> quantities of its run."""
        final = self.survey.final
        return {
            (one.block, arm): quantities(run, final) for one in self.survey.complete for arm, run in one.runs.items()
        }

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Every arm less the baseline, then the other pairs."""
        plan = self.survey.plan
        others = [arm for arm in plan.arms if arm != plan.baseline]
        pairs = [(arm, plan.baseline) for arm in others] + [
            (second, first) for first, second in combinations(others, 2)
        ]
        return tuple(self._contrast(arm, against) for arm, against in pairs) if self.survey.complete else ()

    def _contrast(self, arm: str, against: str) -> Contrast:
        survey, primary = self.survey, next(name for name, value in AT_T.items() if value == self.survey.plan.value)
        runs = [one.runs[name] for one in survey.complete for name in (arm, against)]
        labels = {name: survey.complete[0].runs[name].label for name in (arm, against)}
        found = experiments(runs, baseline=labels[against], planned=survey.final)
        sound = [one for one in survey.complete if not one.deviations]
        starts: dict[str, list[float]] = defaultdict(list)
        for one in survey.complete:
            starts[one.start].append(self._difference(primary, one, arm, against))
        budgets = budget_grid(survey.final, points=100)
        rows: dict[str, list[Array]] = defaultdict(list)
        for one in survey.complete:
            both = [curve([one.runs[name].chains], budgets, survey.plan.value)[0] for name in (arm, against)]
            rows[one.block.task].append(both[0] - both[1])
        mean_B, drawn_DB = bootstrap(rows, draws=2000)
        low_B, high_B = np.quantile(drawn_DB, (0.025, 0.975), axis=0)
        fewer = 0 < len(sound) < len(survey.complete)
        return Contrast(
            arm=arm,
            against=against,
            quantities={
                name: self._pooled(name, arm, against, survey.complete)
                for name in sorted(WORDS, key=lambda name: name != primary)
            },
            table=table_of(found, "reward", survey.plan.value, labels[arm]),
            experiments=found,
            without_deviations=self._pooled(primary, arm, against, sound).difference if fewer else None,
            by_start=interval_of(starts) if len(starts) > 1 else None,
            budgets=budgets,
            curve=(mean_B, low_B, high_B),
        )

    def _difference(self, name: str, one: BlockState, arm: str, against: str) -> float:
        return self.runs[one.block, arm][name] - self.runs[one.block, against][name]

    def _pooled(self, name: str, arm: str, against: str, blocks: Iterable[BlockState]) -> Pooled:
        """A quantity over the blocks in which both arms have it."""
        tasks: dict[str, dict[int, float]] = defaultdict(dict)
        values: dict[str, list[list[float]]] = defaultdict(list)
        for one in blocks:
            first, second = (self.runs[one.block, label][name] for label in (arm, against))
            if np.isfinite(first) and np.isfinite(second):
                task = Path(one.block.task).name
                tasks[task][one.block.seed] = first - second
                values[task].append([first, second])
        if not tasks:
            return Pooled(name, None, None, Interval(None, None, None), {})
        means = np.mean([np.mean(pairs, axis=0) for pairs in values.values()], axis=0)
        difference = interval_of({task: list(seeds.values()) for task, seeds in tasks.items()})
        return Pooled(name, float(means[0]), float(means[1]), difference, tasks)


def counted(number: int, word: str) -> str:
    """1 block, 2 blocks."""
    return f"{number} {word}{'s' * (number != 1)}"


def bootstrap(
    groups: Mapping[str, Sequence[Any]], *, draws: int = DRAWS, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The mean over groups of the mean inside each, and D draws of it.

    A draw takes as many groups as there are, with replacement, then as many members of each, with replacement. Members
    are differences of blocks, numbers or curves: both arms of a block stay together.
    """
    rng = np.random.default_rng(seed)
    members_K = [np.asarray(members, dtype=np.float64) for members in groups.values()]
    pick_DK = rng.integers(len(members_K), size=(draws, len(members_K)))
    total_D = np.zeros((draws, *members_K[0].shape[1:]))
    for slot in range(len(members_K)):
        for group, members in enumerate(members_K):
            here = np.flatnonzero(pick_DK[:, slot] == group)
            total_D[here] += members[rng.integers(len(members), size=(here.size, len(members)))].mean(axis=1)
    return np.mean([members.mean(axis=0) for members in members_K], axis=0), total_D / len(members_K)


def interval_of(groups: Mapping[str, Sequence[float]]) -> Interval:
    """Estimate and 95 % percentile interval of `bootstrap`; no interval from a single number."""
    mean, drawn_D = bootstrap(groups)
    if sum(map(len, groups.values())) < 2:
        return Interval(float(mean), None, None)
    low, high = np.quantile(drawn_D, (0.025, 0.975))
    return Interval(float(mean), float(low), float(high))


def quantities(run: Run, final: float) -> dict[str, float]:
    """Every quantity of one run, by the names of `WORDS`; NaN where it is not defined."""
    found = {name: float(run.chains.at_end(final, value).mean()) for name, value in AT_T.items()}
    for name, (top, bottom) in totals(run.chains, final).items():
        found[name] = float(top.sum() / bottom.sum()) if bottom.sum() > 0 else float("nan")
    found["held_out_reward"] = float("nan") if run.held_out_reward is None else run.held_out_reward
    return found | {"most_frequent_script": most_frequent(run, final)}


def most_frequent(run: Run, final: float) -> float:
    """Share of the most frequent script among the valid attempts that ended between 0.8 T and T; NaN without any.

    Near 1 the policy writes one script whatever it is shown, and a price can no longer change what it writes.
    """
    columns = (np.array([getattr(one, name) for one in run.attempts]) for name in ("step", "row", "chain"))
    finished_N = run.chains.finished[places(*columns)] if run.attempts else np.array([])
    ended = zip(run.attempts, finished_N, strict=True)
    codes = Counter(one.code for one, at in ended if one.valid and NEAR_END[0] * final <= at <= final)
    return max(codes.values()) / codes.total() if codes else float("nan")
