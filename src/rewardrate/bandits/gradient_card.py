"""Policy-gradient agents on a GPU: a warp per trial, its lanes share the actions of a context and the sums of a refit.

The equations are `policy_gradient`'s, the estimator is that of the cores compiled for a `team` of lanes. Sums are taken
in another order, so results agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from numba import cuda, float64

from rewardrate.bandits import batch_rates, pricing
from rewardrate.bandits.counter import AGENT, ORDER, WORLD, bits, permute, trial_key, uniform
from rewardrate.bandits.draws import SKIP_REWARD, SKIP_SECONDS, draw
from rewardrate.bandits.kernels import kernel_of, on_card, retold, states_of
from rewardrate.bandits.policy_gradient import ACTIONS, CELLS, MEMORY, NATURAL, RATE, exp_below
from rewardrate.bandits.trial import PRICE, PSEUDO, REGRET

LANES = 32
ALL = 0xFFFFFFFF  # lanes that take part
WHOLE, ACTION = 0, 1  # what a draw finds
LARGEST = 512  # actions that fit the block's own memory
REGISTERS = 64  # a thread: 32 warps on a multiprocessor, and more is slower (docs/bandits.md)


def board_gradient(
    batch: Any, steps: int, sent: list[Any], orders: list[Any], out: Any, stream: Any
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """What launches a batch of policy-gradient trials, and what must be kept until it lands."""
    trials = out.shape[0]
    first, states = states_of(batch, stream)

    def launch() -> None:
        gradient_kernel()[trials, LANES, stream](steps, *sent, first, states, *orders, out)

    return launch, (first, states)


@lru_cache(maxsize=1)
def gradient_kernel() -> Any:
    """The kernel: block i runs trial i, configuration i // seeds on seed i % seeds."""
    b, p = batch_rates, pricing
    functions: list[Callable[..., Any]] = [
        b.student_weights,
        b.powers,
        b.spread_polynomial,
        b.central_moments,
        b.tilted,
        b.expanded,
        b.saddled,
    ]
    functions += [b.charged_rate, p.fit_niw, p.feed]
    team = {"LANES": LANES, "lane": _lane, "together": _together, "whole": _whole}
    return kernel_of(make_trial(retold(functions, team)["feed"]), REGISTERS)


def make_trial(feed: Callable[..., None]) -> Callable[..., None]:
    """The trial as plain Python, around the estimator for a warp."""

    def trial(
        steps: Any, marks: Any, mean_reward: Any, mean_seconds: Any, gap: Any, numbers: Any, seeds: Any,
        parameters: Any, first: Any, states: Any, arm_of: Any, context_of: Any, out: Any,
    ) -> None:  # fmt: skip
        i, me = cuda.blockIdx.x, cuda.threadIdx.x
        chance = cuda.shared.array(LARGEST, float64)
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
        _together()
        regret, pseudo, mark = 0.0, 0.0, 0
        for t in range(1, steps + 1):
            x = min(int(uniform(world, 3 * t) * contexts), contexts - 1)
            key = bits(own, t)
            base = memory + 2 + actions + x * actions
            top, greedy = _largest(state, base, actions)
            for a in range(me, actions, LANES):
                chance[a] = exp_below(state[base + a] - top)
            _together()
            _draw_action(chance, actions, uniform(key, 0), found)
            action, total = int(found[ACTION]), found[WHOLE]
            row = context_of[i, x]
            arm, reward, seconds = actions - 1, SKIP_REWARD, SKIP_SECONDS
            if action < actions - 1:
                arm = arm_of[i, action]
                reward, seconds = draw(
                    mean_reward[row, arm], mean_seconds[row, arm], numbers[0], numbers[1], world, 3 * t + 1
                )
            if action == greedy:
                feed(state, p, t, reward, seconds, bits(key, 1))
            if me == 0:
                _record(state, base + action, cells, reward, seconds)
            _together()
            _climb(state, base, actions, cells, p[RATE], p[NATURAL], total, chance)
            regret += numbers[2] * seconds - reward
            pseudo += gap[row, arm]
            if t == marks[mark]:
                if me == 0:
                    out[i, REGRET, mark], out[i, PSEUDO, mark], out[i, PRICE, mark] = regret, pseudo, state[0]
                mark = min(mark + 1, marks.size - 1)

    return trial


# What a warp does together: numba's simulator knows none of it, so the tests bring their own.


@on_card
def _lane() -> Any:
    return cuda.threadIdx.x


@on_card
def _together() -> None:
    cuda.syncwarp()


@on_card
def _whole(a: Any, b: Any, c: Any, d: Any) -> Any:
    """`team.whole`: every lane adds what its neighbour at distance 16, 8, 4, 2, 1 has."""
    far = LANES // 2
    while far > 0:
        a += cuda.shfl_xor_sync(ALL, a, far)
        b += cuda.shfl_xor_sync(ALL, b, far)
        c += cuda.shfl_xor_sync(ALL, c, far)
        d += cuda.shfl_xor_sync(ALL, d, far)
        far //= 2
    return a, b, c, d


@on_card
def _highest(value: Any, place: Any) -> Any:
    """The largest value of all lanes and its place, the lowest on ties; known to every lane."""
    far = LANES // 2
    while far > 0:
        other, there = cuda.shfl_xor_sync(ALL, value, far), cuda.shfl_xor_sync(ALL, place, far)
        if other > value or (other == value and there < place):
            value, place = other, there
        far //= 2
    return value, place


@on_card
def _up_to(value: Any) -> Any:
    """The sum over the lanes up to this one, and that up to the one before."""
    far, before = 1, 0.0
    while far < LANES:
        other = cuda.shfl_up_sync(ALL, value, far)
        if cuda.threadIdx.x >= far:
            value += other
        far *= 2
    before = cuda.shfl_up_sync(ALL, value, 1)
    return value, before if cuda.threadIdx.x > 0 else 0.0


@on_card
def _largest(state: Any, base: Any, actions: Any) -> Any:
    """(largest logit of the context, its action; the lowest on ties), known to every lane."""
    top, best = -1e300, actions
    for a in range(cuda.threadIdx.x, actions, LANES):
        logit = state[base + a]
        if logit > top:
            top, best = logit, a
    return _highest(top, best)


@on_card
def _draw_action(chance: Any, actions: Any, u: Any, found: Any) -> None:
    """The action at which the running sum of `chance` passes u times the whole, and the whole.

    Lane k adds up the k-th stretch of actions; the lane whose stretch holds the place looks for it there.
    """
    me = cuda.threadIdx.x
    width = (actions + LANES - 1) // LANES
    low, high = min(me * width, actions), min((me + 1) * width, actions)
    mine = 0.0
    for a in range(low, high):
        mine += chance[a]
    after, running = _up_to(mine)
    if me == LANES - 1:
        found[WHOLE], found[ACTION] = after, actions - 1
    _together()
    left = u * found[WHOLE]
    if low < high and running <= left < after:
        action = high - 1
        for a in range(low, high - 1):
            running += chance[a]
            if left < running:
                action = a
                break
        found[ACTION] = action
    _together()


@on_card
def _record(state: Any, cell: Any, cells: Any, reward: Any, seconds: Any) -> None:
    """The means and the count of the cell that was played."""
    mean_reward, mean_seconds, count = cell + cells, cell + 2 * cells, cell + 3 * cells
    state[count] += 1.0
    state[mean_reward] += (reward - state[mean_reward]) / state[count]
    state[mean_seconds] += (seconds - state[mean_seconds]) / state[count]


@on_card
def _climb(state: Any, base: Any, actions: Any, cells: Any, rate: Any, natural: Any, total: Any, chance: Any) -> None:
    """The logits of the context, one step up the natural or the standard gradient."""
    me = cuda.threadIdx.x
    price = state[0]
    if natural > 0.0:
        for a in range(base + me, base + actions, LANES):
            state[a] += rate * (state[a + cells] - price * state[a + 2 * cells])
        return
    mean = 0.0
    for a in range(me, actions, LANES):
        mean += chance[a] * (state[base + a + cells] - price * state[base + a + 2 * cells])
    mean, _, _, _ = _whole(mean, 0.0, 0.0, 0.0)
    mean /= total
    rate /= total
    for a in range(me, actions, LANES):
        advantage = state[base + a + cells] - price * state[base + a + 2 * cells] - mean
        state[base + a] += rate * chance[a] * advantage
