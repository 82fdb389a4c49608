"""The laboratory against a plain NumPy version of the same equations, side by side in one run, per core.

    python benchmarks/bench_bandits.py [--steps 3000] [--growth] [--agree TRIALS]

The NumPy version is the tests' reference (tests/bandits/literal.py): every pair of a refit drawn, every policy
enumerated. Times are CPU seconds of this process, so a busy machine does not matter; each side runs the same steps.
--growth adds time against arms, contexts, seeds and steps; --agree compares mean final regrets (z), which takes long.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from bandits import literal
from rewardrate.bandits import CUCB, NPG, SPG, World, simulate
from rewardrate.bandits.engine import Trial, one_trial
from rewardrate.bandits.trial import loop_of, tables_of


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def row(what: str, arms: int, contexts: int, slow: float, fast: float) -> str:
    return f"| {what} | {arms} | {contexts} | {1e6 * slow:,.1f} us | {1e6 * fast:,.2f} us | **{slow / fast:,.0f}x** |"


def gradient(kind: type, arms: int, contexts: int, rate: float, age: int, steps: int) -> str:
    world = World("E1", arms, contexts)
    agent = kind(rate, age)
    simulate(world, agent, [0], 10)
    slow = cpu_seconds(lambda: literal.softmax_trial(world, rate, age, kind is NPG, 0, steps)) / steps
    fast = min(cpu_seconds(lambda: simulate(world, agent, range(10), steps)) for _ in range(3)) / (10 * steps)
    return row(f"{kind.__name__}-NIW, {steps:,} steps", arms, contexts, slow, fast)


def exact(arms: int) -> str:
    """Per step after the first tries; the NumPy version continues from our totals."""
    world, agent, steps = World("E1", arms, 4), CUCB(0.1, 0.01), 30_000
    simulate(world, agent, [0], 10)
    fast = min(cpu_seconds(lambda: simulate(world, agent, range(2), steps)) for _ in range(2)) / (2 * steps)
    state = _end(world, agent, 2000)
    brute = literal.UpperConfidence(world, agent.c1, agent.c2)
    brute.sum_reward, brute.sum_seconds, brute.count = (state.frontier.total[:, c] for c in range(3))
    slow = cpu_seconds(lambda: [brute.act(2001 + i, i % 4) for i in range(5)]) / 5
    return row(f"exact C-UCB, {world.actions**4:,} policies", arms, 4, slow, fast)


def sampled(arms: int, contexts: int, steps: int) -> str:
    world, agent = World("E1", arms, contexts), CUCB(0.1, 0.01, policies=2048)
    state, p = _end(world, agent, steps), agent.parameters(world)
    key = np.uint64(1)
    act = agent.act
    act(steps, 0, key, state, p)
    fast = min(cpu_seconds(lambda: [act(steps + i, 0, key, state, p) for i in range(50)]) for _ in range(3)) / 50
    brute = literal.UpperConfidence(world, agent.c1, agent.c2, policies=2048)
    brute.sum_reward, brute.sum_seconds, brute.count = (state.seen.cell[:, :, c] for c in range(3))
    slow = cpu_seconds(lambda: [brute.act(steps + i, 0) for i in range(20)]) / 20
    return row("C-UCB, 2048 sampled policies", arms, contexts, slow, fast)


def _end(world: World, agent: CUCB, steps: int) -> object:
    """The agent's state after a trial in which every arm of every context was tried."""
    marks, out = np.array([steps]), np.zeros((3, 1))
    trial = Trial(world, agent, loop_of(agent), tables_of(world), agent.parameters(world))
    return one_trial(trial, 0, steps, marks=marks, out=out)


def growth() -> None:
    print("\n| what grows | | CPU time of a step |\n|---|---:|---:|")
    for arms in (10, 40, 160, 640):
        _grow("arms, 16 contexts", arms, World("E1", arms, 16), 4, 10_000)
    for contexts in (4, 16, 64, 256):
        _grow("contexts, 40 arms", contexts, World("E1", 40, contexts), 4, 10_000)
    for seeds in (1, 8, 64):
        _grow("seeds, 10 arms, 4 contexts", seeds, World("E1", 10, 4), seeds, 10_000)
    for steps in (3_000, 30_000, 300_000):
        _grow("steps, 10 arms, 4 contexts", steps, World("E1", 10, 4), 2, steps)


def _grow(what: str, value: int, world: World, seeds: int, steps: int) -> None:
    seconds = cpu_seconds(lambda: simulate(world, NPG(1.0, 1000), range(seeds), steps))
    print(f"| {what} | {value:,} | {1e6 * seconds / (seeds * steps):.2f} us |", flush=True)


def agree(trials: int, steps: int) -> None:
    """Mean final regret, literal NumPy on numbers of its own against 1,000 of our trials."""
    print(f"\n| agent | family | K | contexts | literal, n = {trials} | ours, n = 1,000 | z |")
    print("|---|---|---:|---:|---:|---:|---:|")
    cells = [("E1", 5, 4), ("E2", 10, 4), ("E3", 20, 4), ("E4", 30, 4), ("E1", 70, 8), ("E2", 100, 16), ("E3", 10, 4)]
    for kind in (NPG, SPG):
        for family, arms, contexts in [*cells, ("E4", 10, 4)]:
            world, rate, age = World(family, arms, contexts), 1.0 if contexts == 4 else 3.0, 250
            theirs = np.array(
                [literal.softmax_trial(world, rate, age, kind is NPG, seed, steps) for seed in range(trials)]
            )
            ours = simulate(world, kind(rate, age), range(1000), steps).final_regret
            error = math.sqrt(theirs.var(ddof=1) / trials + ours.var(ddof=1) / ours.size)
            z = (theirs.mean() - ours.mean()) / error
            cell = f"| {kind.__name__} | {family} | {arms} | {contexts} "
            print(f"{cell}| {theirs.mean():,.1f} | {ours.mean():,.1f} | {z:+.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000, help="steps of the policy-gradient trials (default 3000)")
    parser.add_argument("--growth", action="store_true", help="time against arms, contexts, seeds and steps")
    parser.add_argument("--agree", type=int, metavar="TRIALS", help="compare mean regrets on 16 cells")
    args = parser.parse_args()
    print("| trial | K | contexts | NumPy, a step | ours, a step | ratio |\n|---|---:|---:|---:|---:|---:|")
    for kind in (NPG, SPG):
        print(gradient(kind, 10, 4, 0.3, 1000, args.steps), flush=True)
        print(gradient(kind, 160, 64, 3.0, 1000, args.steps), flush=True)
    for arms in (10, 30):
        print(exact(arms), flush=True)
    print(sampled(160, 64, 14_000), flush=True)
    if args.growth:
        growth()
    if args.agree:
        agree(args.agree, args.steps)


if __name__ == "__main__":
    main()
