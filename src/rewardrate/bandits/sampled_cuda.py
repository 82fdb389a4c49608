"""Sampled C-UCB on a GPU: one block per trial, its threads share the sampled policies.

The policies are those that `sampled` draws. Their sums are kept in 32 bits (which moves an index by about 1e-6, a
thousandth of the sampling error), the totals of cells in 64 bits. Paper, equation (bandit:rate).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64, uint32

from rewardrate.bandits.agents.cucb import C1, C2, FLOOR, LOG_ALL, LOG_AMONG, POLICIES
from rewardrate.bandits.counter import AGENT, GOLDEN, ORDER, WORLD, bits, mixed, permute, trial_key, uniform
from rewardrate.bandits.draws import SKIP_REWARD, SKIP_SECONDS, draw
from rewardrate.bandits.kernels import compile_kernel, device_function
from rewardrate.bandits.sampled import HALF, LOWER
from rewardrate.bandits.trial import PRICE, PSEUDO, REGRET

THREADS = 256
POLICIES_PER_THREAD = 8  # at a time: 2048 in one pass of the block
REGISTERS = 80  # per thread: three blocks on a multiprocessor
MAX_SIZE = 512  # actions, and contexts, that fit into the block's shared memory
STAGED = 2048  # cells whose totals are in shared memory at a time: two contexts at least
NUMBERS = 3 * STAGED
# Unsigned indices: numba would wrap negative ones, with a comparison for every access.
ZERO, ONE, TWO, SECONDS, COUNT = (np.uint64(number) for number in (0, 1, 2, STAGED, 2 * STAGED))


def prepare_sampled(
    batch: Any, steps: int, *, inputs: list[Any], permutations: list[Any], out: Any, stream: Any
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """What starts a batch of sampled C-UCB trials, and the device arrays it works in."""
    trials = out.shape[0]
    shape = (trials, 3, batch.world.contexts * batch.world.actions)
    totals = cuda.device_array(shape, np.float64, stream=stream)
    mirror = cuda.device_array(shape, np.float32, stream=stream)

    def start() -> None:
        sampled_kernel()[trials, THREADS, stream](steps, *inputs, totals, mirror, *permutations, out)

    return start, (totals, mirror)


@lru_cache(maxsize=1)
def sampled_kernel() -> Any:
    """The kernel: block i runs trial i, configuration i // seeds on seed i % seeds."""
    return compile_kernel(_trial, REGISTERS)


def _trial(
    steps: Any, marks: Any, mean_reward: Any, mean_seconds: Any, gap: Any, numbers: Any, seeds: Any, parameters: Any,
    totals: Any, mirror: Any, arm_of: Any, context_of: Any, out: Any,
) -> None:  # fmt: skip
    # Thread 0 keeps the trial (context, draw, totals, regret), as `trial.make_loop` does on a CPU; all threads share
    # the two searches, over policies in `_price` and arms in `_best_action`. What they read lies in shared memory, so
    # every write of thread 0 is followed by a barrier before the others read it.
    i, me = cuda.blockIdx.x, cuda.threadIdx.x
    tried = cuda.shared.array(MAX_SIZE, uint32)
    most = cuda.shared.array(MAX_SIZE, float64)
    bound = cuda.shared.array(3, float64)  # price, best rate of a cell, most steps of a policy
    staged = cuda.shared.array(NUMBERS, float32)
    value = cuda.shared.array(THREADS, float64)
    winner = cuda.shared.array(THREADS, int64)
    configuration = i // seeds.size
    p, seed = parameters[configuration], seeds[i - configuration * seeds.size]
    contexts, actions = mean_reward.shape
    order, world, own = trial_key(seed, ORDER), trial_key(seed, WORLD), trial_key(seed, AGENT)
    for x in range(me, MAX_SIZE, THREADS):
        tried[x], most[x] = 0, 0.0
    for c in range(3):
        for cell in range(me, contexts * actions, THREADS):
            totals[i, c, cell] = 0.0
            mirror[i, c, cell] = 0.0
    if me == 0:
        bound[0], bound[1], bound[2] = 0.0, 0.0, 0.0
        permute(order, 0, context_of[i])
        permute(order, contexts, arm_of[i])
    cuda.syncthreads()
    regret, pseudo, mark = 0.0, 0.0, 0
    for t in range(1, steps + 1):
        x = min(int(uniform(world, 3 * t) * contexts), contexts - 1)
        action = int(tried[x])  # arms are tried in order first: as many as were tried is the number of the next
        cuda.syncthreads()  # before thread 0 changes it below
        if action == actions:
            log_t = math.log(max(t, 2))
            price = _price(t, own, p, log_t, contexts, actions, tried, bound, mirror[i], staged, value)
            wide = p[C2] * math.sqrt(log_t + p[LOG_ALL])
            action = _best_action(x * actions, actions, price, wide, totals[i], value, winner)
            if me == 0:
                bound[0] = price
        if me == 0:
            row = context_of[i, x]
            arm, reward, seconds = actions - 1, SKIP_REWARD, SKIP_SECONDS
            if action < actions - 1:
                arm = arm_of[i, action]
                reward, seconds = draw(
                    mean_reward[row, arm], mean_seconds[row, arm], numbers[0], numbers[1], world, 3 * t + 1
                )
            _record(x, x * actions + action, reward, seconds, totals[i], mirror[i], tried, most, bound)
            regret += numbers[2] * seconds - reward
            pseudo += gap[row, arm]
            if t == marks[mark]:
                out[i, REGRET, mark], out[i, PSEUDO, mark], out[i, PRICE, mark] = regret, pseudo, bound[0]
                mark = min(mark + 1, marks.size - 1)
        cuda.syncthreads()


@device_function
def _record(
    x: Any, cell: Any, reward: Any, seconds: Any, totals: Any, mirror: Any, tried: Any, most: Any, bound: Any
) -> None:
    totals[0, cell] += reward
    totals[1, cell] += seconds
    totals[2, cell] += 1.0
    for c in range(3):
        mirror[c, cell] = totals[c, cell]
    count = totals[2, cell]
    if count == 1.0:
        tried[x] += 1
    if count > most[x]:
        most[x] += 1.0
        bound[2] += 1.0
    bound[1] = max(bound[1], totals[0, cell] / totals[1, cell])


@device_function
def _price(
    t: Any, own: Any, p: Any, log_t: Any, contexts: Any, actions: Any, tried: Any, bound: Any, mirror: Any, staged: Any,
    value: Any,
) -> Any:  # fmt: skip
    """`sampled.sampled_index` by all threads of the block: the largest index of the sampled policies, or FLOOR."""
    kappa = 2.0 * p[C1] * (log_t + p[LOG_AMONG])
    # No policy has a better rate than the best cell ever had, nor agrees with more steps than the most played arm of
    # every context together. Early in a trial even that index is below the floor, and nothing needs to be drawn.
    if bound[1] - math.sqrt(kappa / bound[2]) <= FLOOR:
        return FLOOR
    me = cuda.threadIdx.x
    key = bits(own, t)
    policies = int(p[POLICIES])
    best = float32(FLOOR)
    for first in range(0, policies, THREADS * POLICIES_PER_THREAD):
        best = max(
            best, _best_of_thread(first, policies, float32(kappa), key, contexts, actions, tried, mirror, staged)
        )
    value[me] = best
    cuda.syncthreads()
    # Tree reduction in shared memory. A maximum does not depend on the order, so neither does the result.
    half = THREADS // 2
    while half > 0:
        if me < half:
            value[me] = max(value[me], value[me + half])
        cuda.syncthreads()
        half //= 2
    price = value[0]
    cuda.syncthreads()
    return price


@device_function
def _best_of_thread(
    first: Any, policies: Any, kappa: Any, key: Any, contexts: Any, actions: Any, tried: Any, mirror: Any, staged: Any
) -> Any:
    """The best index among this thread's policies: first + thread, first + thread + THREADS, ..."""
    # All policies read the totals of the same cells, at random places. So the block copies as many contexts as fit into
    # shared memory, every thread advances its policies along them, and the next contexts follow. Each policy's sums
    # stay in registers meanwhile.
    me = cuda.threadIdx.x
    sums = cuda.local.array((3, POLICIES_PER_THREAD), float32)
    for j in range(POLICIES_PER_THREAD):
        sums[0, j] = sums[1, j] = sums[2, j] = float32(0.0)
    pairs = (contexts + 1) // 2
    chunk = max(STAGED // (2 * actions), 1)
    row, all_cells = np.uint64(actions), contexts * actions
    for low in range(0, pairs, chunk):
        high = min(low + chunk, pairs)
        begin, end = 2 * low * actions, 2 * high * actions
        cuda.syncthreads()
        for c in range(3):
            for cell in range(begin + me, end, THREADS):
                staged[c * STAGED + cell - begin] = mirror[c, cell] if cell < all_cells else float32(0.0)
        cuda.syncthreads()
        for j in range(POLICIES_PER_THREAD):
            # One 64-bit number of the stream gives the arms of two contexts, from its upper and its lower half: floor(h
            # * size / 2^32). `z` walks the SplitMix64 states, GOLDEN apart, that `counter.bits` computes one by one.
            # Where no arm was tried, or an odd number of contexts lacks the second, the place is a cell with zero
            # totals.
            z = key + np.uint64((first + me + j * THREADS) * (contexts // 2 + 1) + low) * GOLDEN
            reward, seconds, count = sums[0, j], sums[1, j], sums[2, j]
            base, x = ZERO, np.uint64(2 * low)
            for _ in range(high - low):
                z += GOLDEN
                number = mixed(z)
                place = base + (((number >> HALF) * np.uint64(tried[x])) >> HALF)
                other = base + row + (((number & LOWER) * np.uint64(tried[x + ONE])) >> HALF)
                reward += staged[place] + staged[other]
                seconds += staged[place + SECONDS] + staged[other + SECONDS]
                count += staged[place + COUNT] + staged[other + COUNT]
                base += row + row
                x += TWO
            sums[0, j], sums[1, j], sums[2, j] = reward, seconds, count
    best = float32(FLOOR)
    for j in range(POLICIES_PER_THREAD):
        if first + me + j * THREADS < policies and sums[2, j] > float32(0.0):
            best = max(best, sums[0, j] / sums[1, j] - math.sqrt(kappa / sums[2, j]))
    return best


@device_function
def _best_action(first: Any, actions: Any, price: Any, wide: Any, totals: Any, value: Any, winner: Any) -> Any:
    """`agents.cucb.best_action`, by all threads of the block. Paper, equation (bandit:ucb)."""
    me = cuda.threadIdx.x
    value[me], winner[me] = -1e300, actions
    for a in range(me, actions, THREADS):
        n = totals[2, first + a]
        index = (totals[0, first + a] - price * totals[1, first + a]) / n + wide / math.sqrt(n)
        if index > value[me]:
            value[me], winner[me] = index, a
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if me < half:
            theirs = me + half
            if value[theirs] > value[me] or (value[theirs] == value[me] and winner[theirs] < winner[me]):
                value[me], winner[me] = value[theirs], winner[theirs]
        cuda.syncthreads()
        half //= 2
    action = winner[0]
    cuda.syncthreads()
    return action
