"""The paper's study: tune every agent on its own seeds, select by median final regret, evaluate on held-out seeds."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numba
import numpy as np

from rewardrate import __version__, config
from rewardrate.bandits.agents import Agent
from rewardrate.bandits.bootstrap import band
from rewardrate.bandits.engine import Engine, Traces, check_seed_range, check_steps, log_marks
from rewardrate.bandits.jobs import TrialBatch, run_batches
from rewardrate.bandits.results import Cell, Results, blob
from rewardrate.bandits.specs import Spec, parse, settings_text
from rewardrate.bandits.world import World
from rewardrate.config import AtLeast, Between
from rewardrate.errors import InputError


@dataclass(frozen=True)
class StudyConfig:
    """A study: worlds, agents with their grids, seeds. The defaults are the paper's small study."""

    families: tuple[str, ...] = ("E1", "E2", "E3", "E4")
    "How reward and time depend on each other: E1 independent, E2 and E3 coupled, E4 lognormal."
    contexts: tuple[int, ...] = (4,)
    "Numbers of contexts."
    arms: tuple[int, ...] = (5, 10, 20, 30)
    "Numbers of arms; SKIP comes on top."
    agents: tuple[str, ...] = (
        "npg learning_rate=0.03,0.1,0.3,1,3 age=60,125,250,500,1000,2000,4000,8000,16000,32000",
        "spg learning_rate=0.03,0.1,0.3,1,3 age=60,125,250,500,1000,2000,4000,8000,16000,32000",
        "cucb theory",
        "cucb c1=0.01,0.1,1,10,100 c2=0.0001,0.001,0.01,0.1,1",
    )
    "Agents as text, with the values to try; a grid of one is not tuned."
    steps: Annotated[int, AtLeast(1)] = 30_000
    "Horizon T."
    marks: Annotated[int, AtLeast(1)] = 300
    "Log-spaced steps at which curves are recorded."
    tuning_seeds: tuple[int, int] = (900, 929)
    "First and last seed of tuning."
    evaluation_seeds: tuple[int, int] = (0, 99)
    "First and last seed of evaluation; must not overlap the tuning seeds."
    resamples: Annotated[int, AtLeast(1)] = 2000
    "Bootstrap resamples behind a band."
    level: Annotated[float, Between(0.01, 0.999)] = 0.95
    "Coverage of a band."

    def __post_init__(self) -> None:
        check_steps(self.steps)
        for name, most in (("marks", 10_000), ("resamples", 100_000)):
            if getattr(self, name) > most:
                raise InputError(name, getattr(self, name), f"it must be at most {most:,}")
        for name in ("families", "contexts", "arms", "agents"):
            values = getattr(self, name)
            if not values:
                raise InputError(name, values, "there must be at least one")
            if len(set(values)) < len(values):
                raise InputError(name, list(values), "each may be given once")
        for name in ("tuning_seeds", "evaluation_seeds"):
            first, last = getattr(self, name)
            if not 0 <= first <= last:
                raise InputError(name, [first, last], "the first must be at least 0 and the last not before it")
            check_seed_range(name, first, last)
        (a, b), (c, d) = self.tuning_seeds, self.evaluation_seeds
        if a <= d and c <= b:
            common = f"seeds {max(a, c)} to {min(b, d)} are in both"
            remedy = "an agent must not be judged on the seeds it was tuned on"
            raise InputError("tuning_seeds", [a, b], f"they overlap evaluation_seeds {[c, d]} ({common})", remedy)
        world = self.worlds()[0]
        for spec in self.specs():
            spec.agents(world)  # reports a bad value of a grid before a file is created
        labels = [spec.label for spec in self.specs()]
        for label in labels:
            if labels.count(label) > 1:
                raise InputError("agents", label, "two agents have this label", "name one with as=...")

    def worlds(self) -> list[World]:
        """Every world, smallest first."""
        return [
            World(family, arms, contexts)
            for contexts in self.contexts
            for arms in self.arms
            for family in self.families
        ]

    def specs(self) -> list[Spec]:
        """Every agent."""
        return [parse(text) for text in self.agents]

    def trials(self) -> int:
        """Trials of the whole study."""
        tuned = sum(len(spec.settings()) for spec in self.specs() if len(spec.settings()) > 1)
        each = tuned * len(_seeds(self.tuning_seeds)) + len(self.agents) * len(_seeds(self.evaluation_seeds))
        return len(self.worlds()) * each


Progress = Callable[[int], None]


def study(
    settings: StudyConfig,
    path: Path,
    *,
    engine: Engine = "auto",
    workers: int = 1,
    progress: Progress | None = None,
) -> Path:
    """Run the unfinished cells of the study in the file at `path`; returns the path. An interrupted one resumes.

    The table does not depend on `workers`, nor on how often the study was interrupted.
    """
    if settings.trials() == 0:
        raise InputError("agents", settings.agents, "there is nothing to do")
    if engine == "cuda":
        from rewardrate.bandits.cuda import check_gpu

        check_gpu()  # before a file is created
    worlds = {
        cell: (world, spec) for world in settings.worlds() for spec in settings.specs() for cell in [_cell(world, spec)]
    }
    with Results.create(Path(path), config.dumps(settings), _about()) as results:
        count = _Counter(results, progress)
        for phase in (_Tuning(settings, results), _Evaluation(settings, results)):
            missing = [cell for cell in worlds if cell not in results.done(phase.name)]
            batches = [phase.batch(cell, *worlds[cell]) for cell in missing]
            start = time.monotonic()
            for i, traces in run_batches(batches, settings.steps, engine=engine, workers=workers, progress=count.now):
                cell = missing[i]
                trials = len(batches[i].agents) * len(batches[i].seeds)
                now = time.monotonic()
                tables = phase.tables(cell, *worlds[cell], traces)
                used = _engine_used(engine, batches[i])
                results.put(phase.name, cell, tables, trials=trials, seconds=now - start, engine=used)
                count.finish(trials)
                start = now
    return Path(path)


class _Tuning:
    """Every configuration of a grid on the tuning seeds; only the last step counts."""

    name = "tuning"

    def __init__(self, settings: StudyConfig, results: Results) -> None:
        self.settings, self.results = settings, results

    def batch(self, cell: Cell, world: World, spec: Spec) -> TrialBatch:
        agents = spec.agents(world)
        steps = self.settings.steps
        return TrialBatch(
            world, agents if len(agents) > 1 else [], _seeds(self.settings.tuning_seeds), np.array([steps])
        )

    def tables(self, cell: Cell, world: World, spec: Spec, traces: Sequence[Traces]) -> dict[str, Iterable[Any]]:
        rows: list[tuple[Any, ...]]
        if not traces:
            rows = [(settings_text(spec.settings()[0]), 0, 0, None, None, 1, b"")]
        else:
            medians = [float(np.median(trace.final_regret)) for trace in traces]
            best = int(np.argmin(medians))
            rows = [
                (
                    settings_text(settings), i, trace.seeds.size, medians[i], float(trace.final_regret.mean()),
                    int(i == best), blob(trace.final_regret),
                )
                for i, (settings, trace) in enumerate(zip(spec.settings(), traces, strict=True))
            ]  # fmt: skip
        return {"tuning": rows}


class _Evaluation:
    """The selected configuration on held-out seeds, with curves."""

    name = "evaluation"

    def __init__(self, settings: StudyConfig, results: Results) -> None:
        self.settings, self.results = settings, results
        self.chosen: dict[Cell, dict[str, Any]] = {}

    def batch(self, cell: Cell, world: World, spec: Spec) -> TrialBatch:
        self.chosen[cell] = self.results.selected(cell)
        agent: Agent = spec.build(self.chosen[cell], world)
        marks = log_marks(self.settings.steps, self.settings.marks)
        return TrialBatch(world, [agent], _seeds(self.settings.evaluation_seeds), marks)

    def tables(self, cell: Cell, world: World, spec: Spec, traces: Sequence[Traces]) -> dict[str, Iterable[Any]]:
        (trace,) = traces
        chosen = settings_text(self.chosen[cell])
        columns = (trace.seeds, trace.regret[:, -1], trace.pseudo_regret[:, -1], trace.price[:, -1])
        rate = world.optimal_rate
        final = [(chosen, int(s), float(r), float(p), float(q), rate) for s, r, p, q in zip(*columns, strict=True)]
        resamples, level = self.settings.resamples, self.settings.level
        records = (trace.regret, trace.pseudo_regret, trace.price)
        bands = [band(record, resamples=resamples, level=level) for record in records]
        regret, pseudo, price = (np.column_stack(part) for part in bands)
        numbers = np.column_stack([regret, np.median(trace.regret, axis=0), pseudo, price])
        curves = [
            (int(step), trace.seeds.size, *map(float, row)) for step, row in zip(trace.steps, numbers, strict=True)
        ]
        return {"evaluation": final, "curves": curves}


class _Counter:
    """Trials done, over both phases and earlier runs."""

    def __init__(self, results: Results, progress: Progress | None) -> None:
        self.progress = progress
        self.base = sum(row["trials"] for row in results.rows("cells"))
        self.now(0)

    def now(self, extra: int) -> None:
        if self.progress:
            self.progress(self.base + extra)

    def finish(self, trials: int) -> None:
        self.base += trials
        self.now(0)


def _engine_used(engine: Engine, batch: TrialBatch) -> str:
    """What ran a batch: exact C-UCB runs on the cores beside a GPU, and auto is the CPU."""
    if engine == "cuda":
        from rewardrate.bandits.cuda import batch_placement

        return "cpu" if batch_placement(batch) == "cores" else "cuda"
    return "cpu" if engine == "auto" else engine


def _cell(world: World, spec: Spec) -> Cell:
    return Cell(world.family, world.contexts, world.arms, spec.label)


def _seeds(bounds: tuple[int, int]) -> range:
    return range(bounds[0], bounds[1] + 1)


def _about() -> dict[str, str]:
    return {
        "rewardrate": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }
