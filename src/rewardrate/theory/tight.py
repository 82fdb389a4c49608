"""Examples in which the bounds hold with equality, or nearly: they cannot be improved by more than the slack.

Each function returns the slack of its statement on one hand-made bandit, on the scale of `statements`. Zero means
equality; the derivations are in docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rewardrate.theory.bandit import F, greedy_policy, margin, policy_rate, relative_value
from rewardrate.theory.dinkelbach import dinkelbach
from rewardrate.theory.guarantees import bounds
from rewardrate.theory.npg import npg
from rewardrate.theory.stream_statements import SmallLearner, drift_slack
from rewardrate.theory.streams import play_stream


def lemma_1() -> float:
    """Far below every kink the slowest actions are greedy: the slope is delta_max."""
    reward, seconds = [[1.0, 0.5]], [[3.0, 1.0]]
    return (3.0 - (F(reward, seconds, None, -9.0) - F(reward, seconds, None, -8.0))) / 3.0


def lemma_2_best() -> float:
    """The optimal policy itself."""
    reward, seconds = np.array([[1.0, 0.8], [0.3, 0.9]]), np.array([[3.0, 1.0], [1.0, 2.0]])
    b = bounds(reward, seconds)
    return (b.rho_star - policy_rate(reward, seconds, None, greedy_policy(reward, seconds, b.rho_star))) / b.rho_max


def _kink(rate: float, best: float, slow: float, quick: float) -> tuple[list[list[float]], list[list[float]]]:
    """Two actions tied at `rate`: the quick one earns `best` per second, the slow one comes first (and is picked)."""
    return [[best * quick + rate * (slow - quick), best * quick]], [[slow, quick]]


def lemma_3() -> float:
    """At the rate where a slow action ties with the optimal quick one, the slow one's rate is exactly chi closer."""
    reward, seconds = _kink(0.25, 1.0, 4.0, 1.0)
    b = bounds(reward, seconds)
    greedy = policy_rate(reward, seconds, None, greedy_policy(reward, seconds, 0.25))
    return (b.chi * (b.rho_star - 0.25) - (b.rho_star - greedy)) / b.rho_max


def lemma_4_gap() -> float:
    """Two actions with the whole spread between them: moving the rate eats the lead at the rate delta_spr."""
    reward, seconds = [[3.0, 1.0]], [[2.0, 1.0]]
    q = relative_value(reward, seconds, 1.0)
    return float(q[0, 0] - q[0, 1] - (margin(reward, seconds, 0.5) - 0.5 * 1.0)) / 5.0


def lemma_4_lipschitz() -> float:
    """Two actions: the margin is linear in the rate, with slope delta_spr."""
    reward, seconds = [[3.0, 1.0]], [[2.0, 1.0]]
    change = margin(reward, seconds, 0.5) - margin(reward, seconds, 1.0)
    return (0.5 * 1.0 - change) / 5.0


def theorem_1_interval() -> float:
    """Over-priced by the whole band, a quick action ties with the optimal slow one; taken at the band's low end, its
    rate is the interval's lower end (1 - R gamma / (1 + gamma)) rho*, in every second iterate.
    """
    gamma, slow, quick = 0.25, 4.0, 1.0
    reward, seconds = [[quick - gamma * (slow - quick), slow]], [[quick, slow]]  # rho* = 1
    b = bounds(reward, seconds)
    path = list(
        dinkelbach(
            reward,
            seconds,
            gamma=gamma,
            start=1 + gamma,
            choose=lambda k, g, low, high: low if k % 2 else high,
            steps=80,
        )
    )
    return (path[79] - b.interval(80, gamma)[0]) / b.rho_max


def proposition() -> float:
    """Every other action trails by exactly the margin: after k steps the bound is off by the factor pi, near 1."""
    reward, seconds = [[1.0, 0.5, 0.8]], [[1.0, 1.0, 2.0]]
    gap, step = 0.5, list(npg(reward, seconds, learning_rate=1.0, rates=[0.3] * 60))[-1]
    return 1 - float(step.policy[0, 1:].sum()) / (2 * math.exp(-gap * step.k))


def corollary() -> float:
    """At rho* + epsilon-bar, with the whole spread between best and second best: half the gap is left, no more."""
    reward, seconds = [[2.0, 0.5]], [[2.0, 1.0]]
    b = bounds(reward, seconds)
    rates = [b.rho_star + b.epsilon_bar] * 200
    step = list(npg(reward, seconds, learning_rate=1.0, rates=rates))[-1]
    return 1 - float(step.policy[0, 1]) / math.exp(-b.Delta_star / 2 * step.k)


def theorem_2_rate() -> float:
    """A slow action a thousand times slower than the optimal one, tied at the start: nothing is gained in one step."""
    reward, seconds = _kink(0.5, 1.0, 1000.0, 1.0)
    b = bounds(reward, seconds)
    step = list(npg(reward, seconds, learning_rate=1.0, start=0.5, steps=2))[-1]
    return (b.error(step.k, 0.5) - (b.rho_star - step.mean_rate)) / b.rho_star


def theorem_2_tail() -> float:
    """Start just inside epsilon-bar, times far apart: k0 = 1, and at k = 1 half the gap is left."""
    reward, seconds = [[1.0, 20_000.0]], [[1.0, 100_000.0]]
    b = bounds(reward, seconds)
    start = b.rho_star - b.epsilon_bar * math.exp(-(1 - b.chi)) * (1 - 1e-12)
    eta = 40 / b.Delta_star
    step = next(npg(reward, seconds, learning_rate=eta, start=start))
    return 1 - float(step.policy[0, 1]) / b.tail(1, eta) if b.k0(start) == 1 else math.nan


def streams_no_ratio() -> float:
    """Every attempt pulls the policy the same way, so no error makes up for another."""
    return drift_slack(SmallLearner(seconds=(1.0, 3.0), value=(0.0, 1.0), logit=0.0, pull=(1.0, 1.0)))


def streams_finish_order() -> float:
    """One attempt in a thousand takes a million seconds: when one of two chains ends, the other runs a slow one.

    By renewal theory with chance p s / (p s + 1 - p), though it was drawn with chance p.
    """
    p, slow = 1e-3, 1e6
    return 1 - (p * slow / (p * slow + 1 - p) - p)


def streams_age() -> float:
    """With one chain no attempt waits for another, whatever its age may be."""
    first, second = (play_stream(np.ones(20), 1, 8, age=age, order="start").times for age in (0, 1))
    return float(np.min(first - second))


TIGHT: dict[str, Callable[[], float]] = {
    "lemma 1": lemma_1,
    "lemma 2, best": lemma_2_best,
    "lemma 3": lemma_3,
    "lemma 4, gap": lemma_4_gap,
    "lemma 4, Lipschitz": lemma_4_lipschitz,
    "theorem 1, interval": theorem_1_interval,
    "proposition": proposition,
    "corollary": corollary,
    "theorem 2, rate": theorem_2_rate,
    "theorem 2, tail": theorem_2_tail,
    "streams, no ratio": streams_no_ratio,
    "streams, finish order": streams_finish_order,
    "streams, age": streams_age,
}
