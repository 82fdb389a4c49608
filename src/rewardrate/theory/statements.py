"""The paper's statements, and ours on streams, as functions: one bandit in, the slack of the inequality out.

A negative slack is a violation. Slacks are relative to the natural scale of each statement. Inequalities are allowed
ROUNDING below zero, since they are evaluated in 64-bit arithmetic (tests repeat lemmas and theorem 1 in exact
rationals, with nothing allowed); statements of the form "agrees to 1e-10" carry their tolerance in the slack and are
allowed nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rewardrate.theory.bandit import F, Ties, greedy_policy, margin, policy_rate, relative_value
from rewardrate.theory.dinkelbach import Choose, dinkelbach
from rewardrate.theory.guarantees import Bounds, bounds
from rewardrate.theory.instances import Instance, draw_smdp
from rewardrate.theory.npg import npg, softmax
from rewardrate.theory.stream_statements import finish_order, never_later, no_ratio, start_order
from rewardrate.theory.tables import Array

ROUNDING = 1e-9
OURS = "ours"  # not in the paper: docs/theory.md


@dataclass
class Case:
    """An instance, its bounds, and the random numbers a statement may use for what it leaves free."""

    instance: Instance
    rng: np.random.Generator
    steps: int = 60

    @property
    def tables(self) -> tuple[Array, Array, Array]:
        """(reward, seconds, p)."""
        return self.instance.reward, self.instance.seconds, self.instance.p

    @cached_property
    def bounds(self) -> Bounds:
        """Constants of the instance."""
        return bounds(*self.tables)

    @cached_property
    def unit(self) -> float:
        """A rate of natural size, never 0."""
        return self.bounds.rho_max or 1 / self.bounds.delta_max

    def greedy_rate(self, rate: float) -> float:
        """rho(u_rate) under random tie-breaking."""
        reward, seconds, p = self.tables
        return policy_rate(reward, seconds, p, greedy_policy(reward, seconds, rate, ties=self.rng))


Check = Callable[[Case], float | None]


@dataclass(frozen=True)
class Statement:
    """One claim: where it stands in the paper, what it says, and how it is checked."""

    name: str
    claim: str
    label: str
    "The paper's own label."
    check: Check
    "Smallest slack on a case; None where the claim's conditions do not hold."
    allowance: float = ROUNDING


def lemma_1(case: Case) -> float:
    """delta_min <= (F(rho) - F(rho')) / (rho' - rho) <= delta_max."""
    b = case.bounds
    low, gap = case.rng.uniform(-1, 2) * case.unit, case.rng.uniform(1e-3, 2) * case.unit
    slope = (F(*case.tables, low) - F(*case.tables, low + gap)) / gap
    return min(slope - b.delta_min, b.delta_max - slope) / b.delta_max


def lemma_2_root(case: Case) -> float:
    """|F(rho*)| <= 1e-12, in units of the rewards and times in it."""
    reward, seconds, _ = case.tables
    scale = float((np.abs(reward) + case.bounds.rho_star * seconds).max()) or 1.0
    return 1e-12 - abs(F(*case.tables, case.bounds.rho_star)) / scale


def lemma_2_best(case: Case) -> float:
    """rho(pi) <= rho* for stochastic policies, and every deterministic one where there are few."""
    reward, seconds, p = case.tables
    contexts, actions = reward.shape
    rates = [policy_rate(reward, seconds, p, case.rng.dirichlet(np.full(actions, 0.5), contexts)) for _ in range(4)]
    if actions**contexts <= 32:
        every = itertools.product(range(actions), repeat=contexts)
        rates += [policy_rate(reward, seconds, p, np.array(policy)) for policy in every]
    return (case.bounds.rho_star - max(rates)) / case.unit


def lemma_3(case: Case) -> float:
    """Rho <= rho* implies rho <= rho(u_rho) <= rho* and rho* - rho(u_rho) <= chi (rho* - rho)."""
    b = case.bounds
    rate = b.rho_star - float(case.rng.choice([1e-6, 0.1, 1.0])) * case.rng.uniform() * case.unit
    greedy = case.greedy_rate(rate)
    return min(greedy - rate, b.rho_star - greedy, b.chi * (b.rho_star - rate) - (b.rho_star - greedy)) / case.unit


def lemma_4_gap(case: Case) -> float | None:
    """q_rho(x, u') - q_rho(x, a) >= Delta(rho') - |rho - rho'| delta_spr for a != u' = u_rho'(x)."""
    reward, seconds, _ = case.tables
    if reward.shape[1] == 1:
        return None
    rate, other = (float(case.rng.uniform(-1, 2)) * case.unit for _ in range(2))
    q = relative_value(reward, seconds, rate)
    rows, chosen = np.arange(len(q)), greedy_policy(reward, seconds, other, ties=case.rng)
    rest = q.copy()
    rest[rows, chosen] = -np.inf
    gap = float((q[rows, chosen] - rest.max(axis=1)).min())
    return (gap - margin(reward, seconds, other) + abs(rate - other) * case.bounds.delta_spr) / _q_scale(
        case, rate, other
    )


def lemma_4_lipschitz(case: Case) -> float | None:
    """|Delta(rho) - Delta(rho')| <= |rho - rho'| delta_spr."""
    reward, seconds, _ = case.tables
    if reward.shape[1] == 1:
        return None
    rate, other = (float(case.rng.uniform(-1, 2)) * case.unit for _ in range(2))
    change = abs(margin(reward, seconds, rate) - margin(reward, seconds, other))
    return (abs(rate - other) * case.bounds.delta_spr - change) / _q_scale(case, rate, other)


def lemma_4_same_policy(case: Case) -> float | None:
    """|rho - rho*| <= epsilon-bar gives u_rho = a* under any tie-breaking, and Delta(rho) >= Delta* / 2."""
    b, (reward, seconds, _) = case.bounds, case.tables
    if b.Delta_star == 0 or reward.shape[1] == 1:
        return None
    reach = min(b.epsilon_bar, 10 * case.unit)
    rate = b.rho_star + case.rng.choice([-1.0, 1.0, case.rng.uniform(-1, 1)]) * reach
    best = greedy_policy(reward, seconds, b.rho_star)
    if (greedy_policy(reward, seconds, rate, ties=case.rng) != best).any():
        return -1.0
    return (margin(reward, seconds, rate) - b.Delta_star / 2) / _q_scale(case, rate)


def theorem_1_interval(case: Case) -> float:
    """Every iterate from the second on lies in the interval, whatever is chosen from the band, however ties break."""
    b = case.bounds
    gamma = float(case.rng.choice([0.0, 0.01, 0.1, 0.5, 1.0]))
    start = float(case.rng.uniform(0, 1)) * b.rho_max
    chosen: list[Choose | np.random.Generator] = [
        case.rng,
        lambda k, greedy, low, high: low,
        lambda k, greedy, low, high: high,
        lambda k, greedy, low, high: (low, high)[k % 2],
    ]
    choose = chosen[int(case.rng.integers(len(chosen)))]
    iterates = dinkelbach(*case.tables, start=start, gamma=gamma, choose=choose, ties=case.rng, steps=case.steps)
    slack = math.inf
    for k, rate in enumerate(iterates, start=1):
        if k >= 2:
            low, high = b.interval(k, gamma)
            slack = min(slack, rate - low, high - rate)
    return slack / case.unit


def theorem_1_exact(case: Case) -> float:
    """Gamma = 0: rho_2 <= rho_3 <= ... <= rho*, reached (to 1e-12) within |A|^|X| + 2 iterates."""
    b, (reward, seconds, p) = case.bounds, case.tables
    start = float(case.rng.uniform(0, 1)) * b.rho_max
    ties: Ties = "first" if case.rng.random() < 0.5 else "last"
    iterates = list(dinkelbach(reward, seconds, p, start=start, ties=ties, steps=10_000))
    if len(iterates) > reward.shape[1] ** len(reward) + 2:
        return -1.0
    rises = np.diff(iterates[1:])
    return min(1e-12 - abs(iterates[-1] - b.rho_star) / case.unit, float(rises.min(initial=0.0)) / case.unit + 1e-12)


def proposition(case: Case) -> float | None:
    """At a fixed rate with margin: 1 - pi_k(u) <= (1 - pi_0) / pi_0 exp(-eta Delta k)."""
    rate = float(case.rng.uniform(-0.5, 1.5)) * case.unit
    return _fixed_rate_tail(case, rate, margin(case.instance.reward, case.instance.seconds, rate))


def corollary(case: Case) -> float | None:
    """At a fixed rate within epsilon-bar of rho*: 1 - pi_k(a*) <= (1 - pi_0) / pi_0 exp(-eta Delta* k / 2)."""
    b = case.bounds
    if b.Delta_star == 0 or math.isinf(b.epsilon_bar):
        return None
    return _fixed_rate_tail(
        case, b.rho_star + case.rng.choice([-1.0, 1.0]) * b.epsilon_bar, b.Delta_star / 2, b.rho_star
    )


def theorem_2_boltzmann(case: Case) -> float:
    """After k steps at any rates, pi_k is softmax(eta k q at their running average), to 1e-10."""
    rates = case.rng.uniform(0, 1, 40) * case.unit
    eta = _learning_rate(case)
    worst = 0.0
    for step in npg(*case.tables, learning_rate=eta, rates=rates):
        q = relative_value(case.instance.reward, case.instance.seconds, float(rates[: step.k].mean()))
        worst = max(worst, float(np.abs(step.policy - softmax(eta * step.k * q)).max()))
    return 1e-10 - worst


def theorem_2_rate(case: Case) -> float:
    """rho* - (running average) is at least 0, never grows, and is at most (rho* - rho_1) e^(1-chi) (k+1)^-(1-chi)."""
    b = case.bounds
    start = float(case.rng.uniform(0, 1)) * b.rho_star
    slack, error = math.inf, math.inf
    for step in npg(*case.tables, learning_rate=1.0, start=start, ties=case.rng, steps=case.steps):
        new = b.rho_star - step.mean_rate
        slack = min(slack, b.error(step.k, start) - new, new, error - new)
        error = new
    return slack / case.unit


def theorem_2_tail(case: Case) -> float | None:
    """From k0 on the greedy policy is optimal and 1 - pi_k(a*) <= (|A| - 1) exp(-eta Delta* k / 2)."""
    b, (reward, seconds, _) = case.bounds, case.tables
    if reward.shape[1] == 1 or b.Delta_star == 0:
        return None
    reach = min(float(case.rng.uniform(0, 1.5)) * b.epsilon_bar, b.rho_star)
    start = max(b.rho_star - reach, 0.0)
    k0, eta = b.k0(start), _learning_rate(case)
    if k0 > 4 * case.steps:
        return None
    best, slack = greedy_policy(reward, seconds, b.rho_star), math.inf
    for step in npg(*case.tables, learning_rate=eta, start=start, steps=int(k0) + 10):
        if step.k >= k0:
            if (greedy_policy(reward, seconds, step.mean_rate, ties=case.rng) != best).any():
                return -1.0
            slack = min(slack, 1 - float(_missing(step.policy, best).max()) / b.tail(step.k, eta))
    return slack


def gradient_theorem(case: Case) -> float:
    """The exact gradient of an SMDP's rate agrees with central differences to 1e-6 of its size."""
    smdp = draw_smdp(case.rng)
    theta = case.rng.normal(0, 1, smdp.reward.shape)
    exact, step = smdp.gradient(theta), 1e-5
    scale = float(np.abs(smdp.reward / smdp.seconds).max())
    worst = 0.0
    for place in np.ndindex(theta.shape):
        moved = np.zeros(theta.shape)
        moved[place] = step
        difference = (smdp.rate(softmax(theta + moved)) - smdp.rate(softmax(theta - moved))) / (2 * step)
        worst = max(worst, abs(difference - float(exact[place])))
    return 1e-6 - worst / scale


def smdp_optimum(case: Case) -> float:
    """Policy iteration finds the best of all deterministic policies, to 1e-10."""
    smdp = draw_smdp(case.rng, states=3)
    every = itertools.product(range(smdp.actions), repeat=smdp.states)
    best = max(smdp.rate(np.array(policy)) for policy in every)
    return 1e-10 - abs(smdp.optimal().rate - best) / float(np.abs(smdp.reward / smdp.seconds).max())


STATEMENTS: tuple[Statement, ...] = (
    Statement("lemma 1", "slope of F within [delta_min, delta_max]", "supp:theory:l1", lemma_1),
    Statement("lemma 2, root", "F(rho*) = 0", "supp:theory:l2", lemma_2_root, 0.0),
    Statement("lemma 2, best", "no policy beats rho*", "supp:theory:l2", lemma_2_best),
    Statement("lemma 3", "greedy rate contracts by chi", "supp:theory:l3", lemma_3),
    Statement("lemma 4, gap", "greedy action keeps its lead", "supp:theory:l4", lemma_4_gap),
    Statement("lemma 4, Lipschitz", "margin is delta_spr-Lipschitz", "supp:theory:l4", lemma_4_lipschitz),
    Statement("lemma 4, policy", "within epsilon-bar the policy is optimal", "supp:theory:l4", lemma_4_same_policy),
    Statement(
        "theorem 1, interval",
        "band of gamma: iterates in the interval",
        "results:theory:contraction",
        theorem_1_interval,
    ),
    Statement(
        "theorem 1, exact", "gamma = 0: rises to rho* and stops", "results:theory:contraction", theorem_1_exact, 0.0
    ),
    Statement("proposition", "NPG at a fixed rate: exponential tail", "supp:theory:prop:npg", proposition),
    Statement("corollary", "the same within epsilon-bar of rho*", "supp:theory:cor:npg-inband", corollary),
    Statement(
        "theorem 2, Boltzmann",
        "NPG is softmax(eta k q), to 1e-10",
        "results:theory:npg-dynamics",
        theorem_2_boltzmann,
        0.0,
    ),
    Statement("theorem 2, rate", "error below O(k^-(1-chi))", "eq:thm2:km-rate", theorem_2_rate),
    Statement("theorem 2, tail", "optimal and exponential from k0 on", "eq:thm2:tail", theorem_2_tail),
    Statement("equation 2", "gradient of the SMDP rate, to 1e-6", "prelim:pg thm", gradient_theorem, 0.0),
    Statement("SMDP optimum", "policy iteration = brute force, to 1e-10", "eq:smdp", smdp_optimum, 0.0),
    Statement("streams, start order", "unbiased while the policy learns, to 1e-9", OURS, start_order, 0.0),
    Statement("streams, no ratio", "error within range(f) TV(written by, updated)", OURS, no_ratio),
    Statement("streams, finish order", "error of all updates within (C - 1) range(f)", OURS, finish_order),
    Statement("streams, age", "a larger age delays no update", OURS, never_later),
)


def _q_scale(case: Case, *rates: float) -> float:
    largest = max(abs(rate) for rate in rates)
    return float(case.instance.reward.max() + largest * case.bounds.delta_max) or 1.0


def _learning_rate(case: Case) -> float:
    """A step whose logits grow by 0.1 to 3 per update, whatever the units."""
    return float(10 ** case.rng.uniform(-1, 0.5)) / _q_scale(case, case.unit)


def _missing(policy: Array, best: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Array:
    """1 - pi(best | x), summed from the other actions so that it keeps its digits when small."""
    rest = policy.copy()
    rest[np.arange(len(best)), best] = 0.0
    return np.asarray(rest.sum(axis=1))


def _fixed_rate_tail(case: Case, rate: float, gap: float, best_at: float | None = None) -> float | None:
    reward, seconds, _ = case.tables
    if reward.shape[1] == 1 or gap <= 1e-9 * _q_scale(case, rate):
        return None
    best = greedy_policy(reward, seconds, rate if best_at is None else best_at)
    theta = case.rng.choice([0.0, 1.0]) * case.rng.normal(0, 1, reward.shape)
    first = _missing(softmax(theta), best)
    odds, eta = first / (1 - first), _learning_rate(case)
    slack = 1.0
    for step in npg(*case.tables, learning_rate=eta, rates=[rate] * 40, theta=theta):
        bound = odds * np.exp(-eta * gap * step.k)
        slack = min(slack, float((1 - _missing(step.policy, best) / bound).min()))
    return slack
