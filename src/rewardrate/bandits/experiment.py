"""Several agents on one world with the same seeds: a small experiment of seconds to minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rewardrate.bandits.bootstrap import Band, band
from rewardrate.bandits.engine import Engine, Traces, check_seed_range, check_steps, log_marks
from rewardrate.bandits.jobs import TrialBatch, run_batches, run_in_processes
from rewardrate.bandits.specs import parse
from rewardrate.bandits.world import World
from rewardrate.config import AtLeast
from rewardrate.errors import InputError


@dataclass(frozen=True)
class ExperimentConfig:
    """Agents on one world. The defaults are the demo, with the settings that the study selects for its world."""

    family: str = "E1"
    "How reward and time depend on each other: E1 independent, E2 and E3 coupled, E4 lognormal."
    arms: int = 10
    "Arms K; SKIP comes on top."
    contexts: int = 4
    "Contexts |X|."
    agents: tuple[str, ...] = (
        "npg learning_rate=0.3 age=500",
        "cucb c1=1 c2=0.01",
        "spg learning_rate=0.3 age=250",
        "cucb theory",
    )
    "Agents as text; each must be a single configuration, not a grid."
    steps: Annotated[int, AtLeast(1)] = 30_000
    "Horizon T."
    first_seed: Annotated[int, AtLeast(0)] = 0
    "First of the seeds."
    seeds: Annotated[int, AtLeast(1)] = 40
    "Trials of each agent."

    def __post_init__(self) -> None:
        check_steps(self.steps)
        check_seed_range("seeds", self.first_seed, self.first_seed + self.seeds - 1)
        World(self.family, self.arms, self.contexts)
        labels = []
        for text in self.agents:
            spec = parse(text)
            if len(spec.settings()) != 1:
                remedy = "give each setting one value; rewardrate bandit study tunes grids"
                raise InputError("agents", text, f"it is a grid of {len(spec.settings())}", remedy)
            spec.agents(World(self.family, self.arms, self.contexts))
            labels.append(spec.label)
        if not labels:
            raise InputError("agents", [], "there must be at least one")
        for label in labels:
            if labels.count(label) > 1:
                raise InputError("agents", label, "two agents have this label", "name one with as=...")

    @property
    def world(self) -> World:
        """The world."""
        return World(self.family, self.arms, self.contexts)


class AgentResult:
    """One agent's trials and the band of its regret."""

    def __init__(self, label: str, text: str, traces: Traces) -> None:
        self.label, self.text, self.traces = label, text, traces
        self.regret: Band = band(traces.regret)
        self.price = traces.price.mean(axis=0)

    def summary(self) -> dict[str, Any]:
        """Numbers at the horizon."""
        return {
            "agent": self.label,
            "settings": self.text,
            "trials": int(self.traces.seeds.size),
            "regret": float(self.regret.mean[-1]),
            "regret_low": float(self.regret.low[-1]),
            "regret_high": float(self.regret.high[-1]),
            "regret_median": float(np.median(self.traces.final_regret)),
            "pseudo_regret": float(self.traces.pseudo_regret[:, -1].mean()),
            "price": float(self.price[-1]),
        }


def experiment(
    config: ExperimentConfig,
    *,
    engine: Engine = "auto",
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> list[AgentResult]:
    """Every agent on the same seeds, in the order given. On several workers agents run in processes of their own."""
    world, marks = config.world, log_marks(config.steps, 200)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    specs = [parse(text) for text in config.agents]
    batches = [TrialBatch(world, spec.agents(world), seeds, marks) for spec in specs]
    if engine != "cuda" and workers > 1 and len(batches) > 1:
        finished = run_in_processes(batches, config.steps, workers)
    else:
        finished = run_batches(batches, config.steps, engine=engine, workers=workers)
    found: dict[int, Traces] = {}
    for i, traces in finished:
        found[i] = traces[0]
        if progress:
            progress(len(found) * config.seeds)
    return [AgentResult(spec.label, spec.text, found[i]) for i, spec in enumerate(specs)]
