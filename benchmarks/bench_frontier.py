"""C-UCB's search for the best policy: exact against brute force, sampled against NumPy, and how far exact goes.

    python benchmarks/bench_frontier.py [speed|sampled|reach|gap|all] [--steps 30000] [--rounds 5]

speed     30 arms, 4 contexts, 923,521 policies: a search inside a trial against a brute force of the same totals,
          vectorised over policies (NumPy), compiled (numba), or a plain loop (timed on 11^4 policies and scaled)
sampled   160 arms, 64 contexts: 2048 sampled policies, ours against NumPy
reach     exact search in trials of 30,000 steps of the paper's large worlds: time and parts per search, share proven
gap       what 2048 sampled policies miss, along a trial that plays by the exact index; "own width" has log 2048 in
          the place of log |U|, as the authors have it

Seconds are those of our own process on one core. A search is timed inside a compiled trial: the trial with it minus the
trial without it. The least of the rounds counts.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from bandits import brute
from rewardrate.bandits import World
from rewardrate.bandits.counter import bits, uniform
from rewardrate.bandits.draws import SKIP_REWARD, SKIP_SECONDS, draw
from rewardrate.bandits.frontier import log_policies, maximise, rate_kappa
from rewardrate.bandits.fronts import Frontier, new_frontier, record
from rewardrate.bandits.sampled import POLICIES, new_seen, record_seen, sampled_index
from rewardrate.bandits.world import FAMILIES

FLOOR = 1e-9
PARTS = 1_000_000
VALUE, SEEN_PARTS, PROVEN, SAME_KAPPA, OWN_KAPPA = range(5)


@numba.njit(nogil=True, error_model="numpy")
def trial(
    mean_reward: Any,
    mean_seconds: Any,
    family: Any,
    c: Any,
    key: Any,
    state: Any,
    seen: Any,
    search: int,
    sample: int,
    out: Any,
) -> None:
    """Play C-UCB: by the exact index (search 1) or by 0.5 (0: to time the rest). Sample every so many steps (or 0)."""
    contexts, actions = mean_reward.shape[0], mean_reward.shape[1] + 1
    size = log_policies(contexts, actions)
    for t in range(1, out.shape[0] + 1):
        x = min(int(uniform(key, 3 * t) * contexts), contexts - 1)
        total = state.total[x]
        a = np.argmin(total[2])
        if total[2, a] > 0:
            kappa, price = rate_kappa(c[0], t, size), 0.5
            if search == 1:
                price, proven = maximise(state, kappa, FLOOR, PARTS)
                out[t - 1, VALUE], out[t - 1, SEEN_PARTS], out[t - 1, PROVEN] = price, state.parts[0], proven
            if sample > 0 and t % sample == 0:
                own = rate_kappa(c[0], t, math.log(POLICIES + 1))
                out[t - 1, SAME_KAPPA] = max(FLOOR, sampled_index(seen, bits(key, 3 * t + 2), POLICIES, kappa))
                out[t - 1, OWN_KAPPA] = max(FLOOR, sampled_index(seen, bits(key, 3 * t + 2), POLICIES, own))
            width = c[1] * math.sqrt(rate_kappa(0.5, t, size))
            best = -np.inf
            for b in range(actions):
                index = (total[0, b] - price * total[1, b]) / total[2, b] + width / math.sqrt(total[2, b])
                if index > best:
                    best, a = index, b
        reward, seconds = SKIP_REWARD, SKIP_SECONDS
        if a < actions - 1:
            reward, seconds = draw(mean_reward[x, a], mean_seconds[x, a], family[0], family[1], key, 3 * t + 1)
        record(state, x, a, reward, seconds)
        if sample > 0:
            record_seen(seen, x, a, reward, seconds)


def play(
    world: World, c1: float, c2: float, steps: int, *, search: int = 1, sample: int = 0
) -> tuple[Any, Frontier, float]:
    """(what every step recorded, the state at the end, seconds)."""
    family = FAMILIES[world.family]
    arguments = (world.mean_reward, world.mean_seconds, (family.correlation, float(family.lognormal)), (c1, c2))
    out, state = np.zeros((steps, 5)), new_frontier(world.contexts, world.actions)
    seen = new_seen(world.contexts, world.actions)
    start = time.process_time()
    trial(*arguments, np.uint64(1), state, seen, search, sample, out)
    return out, state, time.process_time() - start


def least(call: Callable[[], Any], rounds: int, number: int = 1) -> float:
    """Seconds of one call, the best of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(number):
            call()
        times.append((time.process_time() - start) / number)
    return min(times)


@numba.njit
def compiled_brute_force(total: Any, kappa: float) -> float:
    """Four nested loops over the arms of four contexts."""
    best, actions = -np.inf, total.shape[2]
    for a in range(actions):
        for b in range(actions):
            r, d, n = total[0, :, a] + total[1, :, b]
            for c in range(actions):
                for e in range(actions):
                    count = n + total[2, 2, c] + total[3, 2, e]
                    if count > 0:
                        rate = (r + total[2, 0, c] + total[3, 0, e]) / (d + total[2, 1, c] + total[3, 1, e])
                        best = max(best, rate - math.sqrt(kappa / count))
    return best


def one_search(world: World, c1: float, c2: float, steps: int, rounds: int) -> tuple[float, Any, Frontier]:
    """Seconds per search, from trials with and without."""
    whole = [play(world, c1, c2, steps) for _ in range(rounds)]
    out, state, _ = whole[0]
    searches = int((out[:, SEEN_PARTS] > 0).sum())
    seconds = min(part[2] for part in whole) - min(play(world, c1, c2, steps, search=0)[2] for _ in range(rounds))
    return seconds / max(searches, 1), out[out[:, SEEN_PARTS] > 0], state


def speed(steps: int, rounds: int) -> None:
    print("\n| family | c1 | c2 | exact search | NumPy, vectorised | ratio | compiled | ratio | plain loop | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    small = play(World("E1", 10, 4), 0.1, 0.01, 500)[1].total.transpose(1, 0, 2)
    plain = least(partial(brute.best_one_by_one, *small.tolist(), 1.0), 2) * (31 / 11) ** 4
    for family, c1, c2 in (("E1", 0.01, 0.01), ("E1", 0.1, 0.01), ("E4", 1.0, 0.1), ("E1", 100.0, 1.0)):
        world = World(family, 30, 4)
        ours, out, state = one_search(world, c1, c2, steps, rounds)
        kappa = rate_kappa(c1, steps, log_policies(4, 31))
        totals = state.total.transpose(1, 0, 2)
        slow = least(partial(brute.best, *totals, kappa), rounds)
        loop = least(partial(compiled_brute_force, state.total, kappa), rounds)
        assert out[:, PROVEN].all()
        assert maximise(state, kappa, -np.inf, PARTS)[0] == brute.best(*totals, kappa)[0]
        print(
            f"| {family} | {c1} | {c2} | {1e6 * ours:.2f} us | {1e3 * slow:.1f} ms | **{slow / ours:,.0f}x** "
            f"| {1e3 * loop:.1f} ms | {loop / ours:,.0f}x | {plain:.1f} s | {plain / ours:,.0f}x |",
            flush=True,
        )


def sampled(steps: int, rounds: int) -> None:
    print("\n| arms | contexts | ours | NumPy | ratio |\n|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for arms, contexts in ((70, 8), (100, 16), (160, 64)):
        seen, totals = new_seen(contexts, arms + 1), np.zeros((3, contexts, arms + 1))
        for x, a in np.ndindex(contexts, arms + 1):
            for _ in range(rng.integers(1, 4)):
                attempt = rng.random(), rng.uniform(0.4, 3)
                record_seen(seen, x, a, *attempt)
                totals[:, x, a] += (*attempt, 1)
        ours = least(partial(sampled_index, seen, np.uint64(1), POLICIES, 1.0), 3 * rounds, 20)
        slow = least(partial(brute.sampled, rng, *totals, 1.0, POLICIES), rounds, 3)
        print(
            f"| {arms} | {contexts} | {1e6 * ours:.0f} us | {1e6 * slow:.0f} us | **{slow / ours:.0f}x** |", flush=True
        )


def reach(steps: int, rounds: int) -> None:
    print(
        "\n| family | arms | contexts | c1 | c2 | time of a search | parts: mean | 99 % | most | proven | mean index |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for contexts, arms in ((4, 30), (8, 70), (16, 100), (32, 130), (64, 160)):
        for family, c1, c2 in (
            ("E1", 0.01, 0.0),
            ("E1", 0.1, 0.001),
            ("E1", 1.0, 0.01),
            ("E4", 1.0, 0.1),
            ("E1", 10.0, 0.1),
        ):
            seconds, out, _ = one_search(World(family, arms, contexts), c1, c2, steps, 1)
            parts = out[:, SEEN_PARTS]
            print(
                f"| {family} | {arms} | {contexts} | {c1} | {c2} | {1e6 * seconds:.1f} us | {parts.mean():.1f} "
                f"| {np.percentile(parts, 99):.0f} | {parts.max():.0f} "
                f"| {int(out[:, PROVEN].sum()):,} of {len(out):,} | {out[:, VALUE].mean():.4f} |",
                flush=True,
            )


def gap(steps: int, rounds: int) -> None:
    print("\nSampled every 20 steps of the second half of a trial; means over those steps.\n")
    print(
        "| family | arms | contexts | c1 | optimal rate | exact | sampled | missed | most missed | sampled, own width |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for contexts, arms in ((8, 70), (16, 100), (64, 160)):
        for family in ("E1", "E4"):
            for c1 in (0.01, 0.1, 1.0):
                world = World(family, arms, contexts)
                out = play(world, c1, 0.01, steps, sample=20)[0][steps // 2 :]
                out = out[out[:, SAME_KAPPA] != 0]
                exact, same, own = out[:, VALUE].mean(), out[:, SAME_KAPPA].mean(), out[:, OWN_KAPPA].mean()
                most = (out[:, VALUE] - out[:, SAME_KAPPA]).max()
                print(
                    f"| {family} | {arms} | {contexts} | {c1} | {world.optimal_rate:.4f} | {exact:.4f} | {same:.4f} "
                    f"| {100 * (1 - same / exact):.1f} % | {most:.4f} | {own:.4f} |",
                    flush=True,
                )


def main() -> None:
    modes = {"speed": speed, "sampled": sampled, "reach": reach, "gap": gap}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", default="all", choices=[*modes, "all"])
    parser.add_argument("--steps", type=int, default=30_000, help="steps of a trial (default 30,000)")
    parser.add_argument("--rounds", type=int, default=5, help="how often a time is taken (default 5)")
    arguments = parser.parse_args()
    play(World("E1", 5, 4), 1.0, 1.0, 60, sample=20)  # compiles
    compiled_brute_force(np.zeros((4, 3, 2)), 1.0)
    for name, mode in modes.items():
        if arguments.mode in (name, "all"):
            mode(arguments.steps, arguments.rounds)


if __name__ == "__main__":
    main()
