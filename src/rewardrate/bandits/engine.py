"""Run trials: the same seeds give the same numbers for any number of workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from rewardrate.bandits.agents.agent import Agent
from rewardrate.bandits.trial import PRICE, PSEUDO, REGRET, Array, Tables, loop_of, tables_of
from rewardrate.bandits.world import World
from rewardrate.checks import at_least
from rewardrate.errors import InputError, did_you_mean

log = logging.getLogger(__name__)

Engine = Literal["auto", "cpu", "cuda", "ray"]
ENGINES = ("auto", "cpu", "cuda")
MOST_STEPS = 100_000_000
MOST_SEEDS = 1_000_000
STEPS = 30_000  # the paper's horizon


@dataclass(frozen=True, eq=False)
class Traces:
    """Recorded trials. Shapes: seeds x marks, except `steps` (marks) and `seeds` (seeds)."""

    steps: NDArray[np.int64]
    "The steps that were recorded (marks)."
    seeds: NDArray[np.int64]
    regret: Array
    "Realised: optimal rate * seconds spent - reward earned. Equation (bandit:regret)."
    pseudo_regret: Array
    "Sum of the relative-value gaps of what was played: regret without the noise of the draws."
    price: Array
    "The agent's price of a second: its estimate of the reward rate."

    @property
    def final_regret(self) -> Array:
        """Regret at the last mark, one per seed."""
        return self.regret[:, -1]


def log_marks(steps: int, count: int = 300) -> NDArray[np.int64]:
    """At most `count` steps from 1 to `steps`, evenly spaced in the logarithm, each once; the last is `steps`."""
    marks = np.geomspace(1, steps, num=at_least("marks", count, 1)).round().astype(np.int64).clip(1, steps)
    marks[-1] = steps  # geomspace of one number is the first, not the last
    return np.unique(marks)


def simulate(
    world: World,
    agent: Agent,
    seeds: Sequence[int] | NDArray[np.int64] | range,
    steps: int = STEPS,
    *,
    marks: Sequence[int] | NDArray[np.int64] | None = None,
    workers: int = 1,
    engine: Engine = "auto",
) -> Traces:
    """One trial per seed. A seed fixes the permutation, the contexts and the noise, so agents can be compared in pairs.

    `marks` are the steps to record (default: 300 log-spaced). `workers` threads share the trials of the CPU engine;
    the result does not depend on them. Engine "auto" is the CPU here, "cuda" one GPU.
    """
    return simulate_many(world, [agent], seeds, steps, marks=marks, workers=workers, engine=engine)[0]


def simulate_many(
    world: World,
    agents: Sequence[Agent],
    seeds: Sequence[int] | NDArray[np.int64] | range,
    steps: int = STEPS,
    *,
    marks: Sequence[int] | NDArray[np.int64] | None = None,
    workers: int = 1,
    engine: Engine = "auto",
    progress: Callable[[int], None] | None = None,
) -> list[Traces]:
    """`simulate` for several agents (a grid of settings, say) on the same world and seeds, in the order given."""
    seed_n, steps, count = check_seeds(seeds), check_steps(steps), at_least("workers", workers, 1)
    mark_m = check_marks(marks, steps)
    if engine not in ENGINES:
        raise InputError("engine", engine, "there is no such engine", did_you_mean(str(engine), ENGINES))
    if not isinstance(world, World):
        raise InputError("world", world, "it must be a World")
    for agent in agents:
        if not isinstance(agent, Agent):
            raise InputError("agent", agent, "it must be an Agent", "for example NPG(learning_rate=0.3, age=1000)")
    if engine == "cuda":
        from rewardrate.bandits.cuda import simulate_on_gpu

        return simulate_on_gpu(world, agents, seed_n, steps, mark_m)
    out = _on_cores(world, agents, seed_n, steps, marks=mark_m, workers=count, progress=progress)
    return traces_of(out, seed_n, mark_m)


def traces_of(out: Array, seeds: Any, marks: Any) -> list[Traces]:
    """The loops' output (agents x seeds x 3 x marks) as one Traces per agent."""
    seed_n, mark_m = np.asarray(seeds, np.int64), np.asarray(marks, np.int64)
    assert np.shape(out)[1:] == (seed_n.size, 3, mark_m.size)
    return [Traces(mark_m, seed_n, part[:, REGRET], part[:, PSEUDO], part[:, PRICE]) for part in out]


def _on_cores(
    world: World,
    agents: Sequence[Agent],
    seeds: NDArray[np.int64],
    steps: int,
    *,
    marks: NDArray[np.int64],
    workers: int,
    progress: Callable[[int], None] | None,
) -> Array:
    tables = tables_of(world)
    out = np.zeros((len(agents), seeds.size, 3, marks.size))
    jobs = [(i, j) for i in range(len(agents)) for j in range(seeds.size)]
    trials = [Trial(world, agent, loop_of(agent), tables, agent.parameters(world)) for agent in agents]
    done = 0
    unproven_steps = np.zeros((len(agents), seeds.size), np.int64)

    def run(job: tuple[int, int]) -> None:
        i, j = job
        state = one_trial(trials[i], int(seeds[j]), steps, marks=marks, out=out[i, j])
        unproven_steps[i, j] = agents[i].unproven_steps(state)

    def count() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done)

    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            run(job)
            count()
    else:
        run(jobs[0])  # compiles once, before the threads start
        count()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for _ in pool.map(run, jobs[1:]):
                    count()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # wait for the running trials only
                raise
    if unproven_steps.any():
        share = f"{unproven_steps.sum()} of {len(jobs) * steps} steps"
        where = f"{world.family}, K = {world.arms}, |X| = {world.contexts}"
        log.warning("%s rest on a price that was not proved to be the largest (%s)", share, where)
    return out


class Trial(NamedTuple):
    """What the trials of one agent on one world share: everything but the seed."""

    world: World
    agent: Agent
    loop: Callable[..., None]
    tables: Tables
    parameters: Any


def one_trial(trial: Trial, seed: int, steps: int, *, marks: NDArray[np.int64], out: Array) -> Any:
    """Run one trial into `out` (3 x marks) and return the agent's state at its end."""
    world, agent = trial.world, trial.agent
    assert out.shape == (3, marks.size)
    state = agent.start(world)
    arm_of, context_of = np.empty(world.arms, np.int64), np.empty(world.contexts, np.int64)
    try:
        trial.loop(
            seed=seed,
            steps=steps,
            marks=marks,
            mean_reward=trial.tables.reward,
            mean_seconds=trial.tables.seconds,
            gap=trial.tables.gap,
            numbers=trial.tables.numbers,
            p=trial.parameters,
            state=state,
            arm_of=arm_of,
            context_of=context_of,
            out=out,
        )
    except NumbaError as error:
        rule = f"numba cannot compile its act, learn or price ({error_summary(error)})"
        raise InputError("agent", agent, rule) from None
    return state


def error_summary(error: NumbaError) -> str:
    """Numba's message in one line: its first line is a headline, the next few name the place."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[1:4] if len(lines) > 1 else lines)


def check_seeds(seeds: Any) -> NDArray[np.int64]:
    """Whole numbers, at least 0, each once, at least one of them."""
    try:
        listed = [seeds] if np.isscalar(seeds) else list(seeds)
    except TypeError:
        raise InputError("seeds", seeds, "they must be whole numbers") from None
    numbers = [at_least(f"seeds[{i}]", seed, 0) for i, seed in enumerate(listed)]
    if not numbers:
        raise InputError("seeds", listed, "there must be at least one")
    if max(numbers) >= 2**63:
        raise InputError("seeds", max(numbers), "a seed must be below 2^63")
    if len(set(numbers)) < len(numbers):
        twice = next(seed for seed in numbers if numbers.count(seed) > 1)
        raise InputError("seeds", twice, "each seed may be given once: the same seed is the same trial")
    return np.array(numbers, dtype=np.int64)


def check_seed_range(name: str, first: int, last: int) -> None:
    """Seeds from `first` to `last`: below 2^63, and no more than memory can hold."""
    if last >= 2**63:
        raise InputError(name, last, "a seed must be below 2^63")
    if last - first >= MOST_SEEDS:
        raise InputError(name, last - first + 1, f"there may be at most {MOST_SEEDS:,} seeds")


def check_steps(steps: Any) -> int:
    """A whole number of steps, at least one."""
    number = at_least("steps", steps, 1)
    if number > MOST_STEPS:
        raise InputError("steps", steps, f"it must be at most {MOST_STEPS:,}")
    return number


def check_marks(marks: Any, steps: int) -> NDArray[np.int64]:
    """Increasing steps within the trial; None: 300 log-spaced ones."""
    if marks is None:
        return log_marks(steps)
    numbers = np.array([at_least(f"marks[{i}]", mark, 1) for i, mark in enumerate(marks)], dtype=np.int64)
    if not numbers.size or (np.diff(numbers) <= 0).any() or numbers[-1] > steps:
        raise InputError("marks", list(marks), f"they must be increasing and lie between 1 and {steps}")
    return numbers
