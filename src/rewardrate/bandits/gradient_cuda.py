"""Policy-gradient agents on a GPU: one warp per trial; its lanes share the actions of a context and a refit's sums.

The equations are `policy_gradient`'s, (bandit:softmax) and (bandit:update) of the paper; the estimator is the CPU's,
recompiled for the `lanes` of a warp. Sums are taken in another order, so results agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from numba import cuda, float64

from rewardrate.bandits import batch_rates, pricing
from rewardrate.bandits.counter import AGENT, ORDER, WORLD, bits, permute, trial_key, uniform
from rewardrate.bandits.draws import SKIP_REWARD, SKIP_SECONDS, draw
from rewardrate.bandits.kernels import compile_for_gpu, compile_kernel, device_function, states_of
from rewardrate.bandits.policy_gradient import ACTIONS, CELLS, MEMORY, NATURAL, RATE, exp_below
from rewardrate.bandits.trial import PRICE, PSEUDO, REGRET

LANES = 32
ALL_LANES = 0xFFFFFFFF  # mask of the lanes that take part in a shuffle
TOTAL, ACTION = 0, 1  # what a draw writes to shared memory
MAX_ACTIONS = 512  # that fit into the block's shared memory
REGISTERS = 64  # per thread: 32 warps on a multiprocessor; more registers were slower (docs/bandits.md)


def prepare_gradient(
    batch: Any, steps: int, *, inputs: list[Any], permutations: list[Any], out: Any, stream: Any
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """What starts a batch of policy-gradient trials, and the device arrays it works in."""
    trials = out.shape[0]
    first, states = states_of(batch, stream)

    def start() -> None:
        gradient_kernel()[trials, LANES, stream](steps, *inputs, first, states, *permutations, out)

    return start, (first, states)


@lru_cache(maxsize=1)
def gradient_kernel() -> Any:
    """The kernel: block i runs trial i, configuration i // seeds on seed i % seeds."""
    b, p = batch_rates, pricing
    functions: list[Callable[..., Any]] = [
        b.student_weights,
        b.exp_at_nodes,
        b.spread_polynomial,
        b.central_moments,
        b.tilted,
        b.cornish_fisher,
        b.saddlepoint,
    ]
    functions += [b.charged_rate, p.fit_niw, p.feed]
    warp = {"LANES": LANES, "lane": _lane, "sync_lanes": _sync_lanes, "sum_lanes": _sum_lanes}
    return compile_kernel(make_trial(compile_for_gpu(functions, warp)["feed"]), REGISTERS)


def make_trial(feed: Callable[..., None]) -> Callable[..., None]:
    """The trial as plain Python, around the estimator for a warp."""

    def trial(
        steps: Any, marks: Any, mean_reward: Any, mean_seconds: Any, gap: Any, numbers: Any, seeds: Any,
        parameters: Any, first: Any, states: Any, arm_of: Any, context_of: Any, out: Any,
    ) -> None:  # fmt: skip
        i, me = cuda.blockIdx.x, cuda.threadIdx.x
        chance = cuda.shared.array(MAX_ACTIONS, float64)
        found = cuda.shared.array(2, float64)
        configuration = i // seeds.size
        p, seed, state = parameters[configuration], seeds[i - configuration * seeds.size], states[i]
        actions, cells, memory = int(p[ACTIONS]), int(p[CELLS]), int(p[MEMORY])
        contexts = mean_reward.shape[0]
        order, world, own = trial_key(seed, ORDER), trial_key(seed, WORLD), trial_key(seed, AGENT)
        for j in range(me, state.size, LANES):
            state[j] = first[configuration, j]
        if me == 0:
            permute(order, 0, context_of[i])
            permute(order, contexts, arm_of[i])
        _sync_lanes()
        regret, pseudo, mark = 0.0, 0.0, 0
        for t in range(1, steps + 1):
            x = min(int(uniform(world, 3 * t) * contexts), contexts - 1)
            key = bits(own, t)
            base = memory + 2 + actions + x * actions
            # Logits relative to the largest: exp cannot overflow.
            top, greedy = _greedy_action(state, base, actions)
            for a in range(me, actions, LANES):
                chance[a] = exp_below(state[base + a] - top)
            _sync_lanes()
            _draw_action(chance, actions, uniform(key, 0), found)
            action, total = int(found[ACTION]), found[TOTAL]
            row = context_of[i, x]
            arm, reward, seconds = actions - 1, SKIP_REWARD, SKIP_SECONDS
            if action < actions - 1:
                arm = arm_of[i, action]
                reward, seconds = draw(
                    mean_reward[row, arm], mean_seconds[row, arm], numbers[0], numbers[1], world, 3 * t + 1
                )
            # The estimator sees greedy steps only: it prices a second at the rate of the greedy policy. All lanes enter
            # `feed` together (it contains shuffles), and share the sums of a refit.
            if action == greedy:
                feed(state, p, t, reward, seconds, bits(key, 1))
            if me == 0:
                _record(state, base + action, cells, reward, seconds)
            _sync_lanes()
            _update_logits(state, base, actions, cells, p[RATE], p[NATURAL], total, chance)
            regret += numbers[2] * seconds - reward
            pseudo += gap[row, arm]
            if t == marks[mark]:
                if me == 0:
                    out[i, REGRET, mark], out[i, PSEUDO, mark], out[i, PRICE, mark] = regret, pseudo, state[0]
                mark = min(mark + 1, marks.size - 1)

    return trial


# Warp primitives. numba's simulator has no warps, so the tests replace these by functions over shared memory.


@device_function
def _lane() -> Any:
    return cuda.threadIdx.x


@device_function
def _sync_lanes() -> None:
    cuda.syncwarp()


@device_function
def _sum_lanes(a: Any, b: Any, c: Any, d: Any) -> Any:
    """`lanes.sum_lanes` for a warp."""
    # Butterfly reduction: lane k adds the value of lane k xor 16, then xor 8, .. 1. After five exchanges through
    # registers every lane has the sum, in the same order of additions on all lanes and so with the same bits. Four sums
    # at once hide the latency of the shuffles.
    far = LANES // 2
    while far > 0:
        a += cuda.shfl_xor_sync(ALL_LANES, a, far)
        b += cuda.shfl_xor_sync(ALL_LANES, b, far)
        c += cuda.shfl_xor_sync(ALL_LANES, c, far)
        d += cuda.shfl_xor_sync(ALL_LANES, d, far)
        far //= 2
    return a, b, c, d


@device_function
def _max_of_lanes(value: Any, place: Any) -> Any:
    """The largest value of all lanes and its place, the lowest on ties; on every lane."""
    far = LANES // 2
    while far > 0:
        other, there = cuda.shfl_xor_sync(ALL_LANES, value, far), cuda.shfl_xor_sync(ALL_LANES, place, far)
        if other > value or (other == value and there < place):
            value, place = other, there
        far //= 2
    return value, place


@device_function
def _prefix_sum(value: Any) -> Any:
    """The sum over the lanes up to this one, and up to the one before."""
    # Hillis and Steele's scan: after the round with distance 2^j each lane holds the sum of its last 2^(j+1) lanes.
    far, before = 1, 0.0
    while far < LANES:
        other = cuda.shfl_up_sync(ALL_LANES, value, far)
        if cuda.threadIdx.x >= far:
            value += other
        far *= 2
    before = cuda.shfl_up_sync(ALL_LANES, value, 1)
    return value, before if cuda.threadIdx.x > 0 else 0.0


@device_function
def _greedy_action(state: Any, base: Any, actions: Any) -> Any:
    """(largest logit of the context, its action; the lowest on ties), on every lane."""
    top, best = -1e300, actions
    for a in range(cuda.threadIdx.x, actions, LANES):
        logit = state[base + a]
        if logit > top:
            top, best = logit, a
    return _max_of_lanes(top, best)


@device_function
def _draw_action(chance: Any, actions: Any, u: Any, found: Any) -> None:
    """Draw an action by inversion: where the running sum of `chance` passes u times its total. Also the total."""
    # Each lane sums a contiguous range of actions, so a prefix sum over the lanes gives where every range begins and
    # ends in the cumulative distribution. Exactly one range contains u * total; its lane alone searches it. Should
    # rounding leave u * total at the very end, the last action stands, as on the CPU.
    me = cuda.threadIdx.x
    width = (actions + LANES - 1) // LANES
    low, high = min(me * width, actions), min((me + 1) * width, actions)
    mine = 0.0
    for a in range(low, high):
        mine += chance[a]
    after, running = _prefix_sum(mine)
    if me == LANES - 1:
        found[TOTAL], found[ACTION] = after, actions - 1
    _sync_lanes()
    left = u * found[TOTAL]
    if low < high and running <= left < after:
        action = high - 1
        for a in range(low, high - 1):
            running += chance[a]
            if left < running:
                action = a
                break
        found[ACTION] = action
    _sync_lanes()


@device_function
def _record(state: Any, cell: Any, cells: Any, reward: Any, seconds: Any) -> None:
    """Update the means and the count of the cell that was played."""
    mean_reward, mean_seconds, count = cell + cells, cell + 2 * cells, cell + 3 * cells
    state[count] += 1.0
    state[mean_reward] += (reward - state[mean_reward]) / state[count]
    state[mean_seconds] += (seconds - state[mean_seconds]) / state[count]


@device_function
def _update_logits(
    state: Any, base: Any, actions: Any, cells: Any, rate: Any, natural: Any, total: Any, chance: Any
) -> None:
    """One step of the context's logits along the natural or the standard gradient. Paper, (bandit:update)."""
    me = cuda.threadIdx.x
    price = state[0]
    if natural > 0.0:
        # The natural gradient is Q - pi'Q; the constant pi'Q changes no softmax and is left out, and so is its sum.
        for a in range(base + me, base + actions, LANES):
            state[a] += rate * (state[a + cells] - price * state[a + 2 * cells])
        return
    mean = 0.0
    for a in range(me, actions, LANES):
        mean += chance[a] * (state[base + a + cells] - price * state[base + a + 2 * cells])
    mean, _, _, _ = _sum_lanes(mean, 0.0, 0.0, 0.0)
    mean /= total
    rate /= total
    for a in range(me, actions, LANES):
        advantage = state[base + a + cells] - price * state[base + a + 2 * cells] - mean
        state[base + a] += rate * chance[a] * advantage
