"""The right-hand sides of both theorems, and the constants in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rewardrate.errors import InputError
from rewardrate.theory.bandit import margin, optimal_rate
from rewardrate.theory.tables import Array, check_p, check_tables


@dataclass(frozen=True)
class Bounds:
    """Constants of one bandit, under the paper's names, and what its theorems promise."""

    rho_star: float
    "Optimal rate."
    rho_max: float
    "r_max / delta_min, the largest rate that could be."
    delta_min: float
    delta_max: float
    delta_spr: float
    "Largest spread of mean seconds within one context. 0 when the action does not change the time."
    Delta_star: float
    "Gap between best and second-best relative value at the optimal rate; infinite with one action, 0 when tied."
    actions: int

    @property
    def R(self) -> float:
        """delta_max / delta_min."""
        return self.delta_max / self.delta_min

    @property
    def chi(self) -> float:
        """Contraction constant 1 - delta_min / delta_max, in [0, 1)."""
        return 1 - self.delta_min / self.delta_max

    @property
    def epsilon_bar(self) -> float:
        """Delta* / (2 delta_spr): rates this close to rho* have the optimal greedy policy (infinite: any)."""
        if self.delta_spr == 0 or math.isinf(self.Delta_star):
            return math.inf if self.Delta_star > 0 else 0.0
        return self.Delta_star / (2 * self.delta_spr)

    def interval(self, k: int, gamma: float = 0.0) -> tuple[float, float]:
        """Theorem 1: where rho_k (k >= 2) lies when every iterate stays in the gamma band of the greedy rate.

        [(1 - R gamma / (1 + gamma)) rho* - (chi / (1 + gamma))^(k-2) rho_max,  (1 + gamma) rho*]
        """
        if k < 2:
            raise InputError("k", k, "theorem 1 needs k >= 2")
        if not 0 <= gamma <= 1:
            raise InputError("gamma", gamma, "it must lie in [0, 1]")
        low = (1 - self.R * gamma / (1 + gamma)) * self.rho_star - (self.chi / (1 + gamma)) ** (k - 2) * self.rho_max
        return low, (1 + gamma) * self.rho_star

    def error(self, k: int, start: float = 0.0) -> float:
        """Theorem 2: rho* - (running average after k steps) <= (rho* - start) e^(1-chi) (k+1)^-(1-chi)."""
        self._check_start(start)
        if k < 1:
            raise InputError("k", k, "theorem 2 needs k >= 1")
        c = self.delta_min / self.delta_max  # 1 - chi, without the rounding
        return (self.rho_star - start) * math.exp(c * (1 - math.log(k + 1)))

    def k0(self, start: float = 0.0) -> float:
        """Theorem 2: from this step on the greedy policy is optimal; infinite if Delta* = 0 or out of range."""
        self._check_start(start)
        # Solve the error bound (rho* - start) e^c (k + 1)^-c <= epsilon_bar, c = 1 - chi, for k in logarithms: the
        # power overflows long before its logarithm does.
        c = self.delta_min / self.delta_max
        distance = max(self.rho_star - start, 0.0)
        if distance == 0 or math.isinf(self.epsilon_bar):
            return 1 if self.Delta_star > 0 else math.inf
        if self.epsilon_bar == 0:
            return math.inf
        exponent = (c + math.log(distance / self.epsilon_bar)) / c
        return max(1, math.ceil(math.exp(exponent))) if exponent < 700 else math.inf

    def tail(self, k: int, learning_rate: float) -> float:
        """Theorem 2, k >= k0: 1 - pi_k(a* | x) <= (|A| - 1) exp(-learning_rate Delta* k / 2)."""
        if self.actions == 1:
            return 0.0
        return (self.actions - 1) * math.exp(-learning_rate * self.Delta_star * k / 2)

    def _check_start(self, start: float) -> None:
        slack = 1e-12 * max(self.rho_star, 1e-300)
        if not 0 <= start <= self.rho_star + slack:
            raise InputError("start", start, f"theorem 2 needs a start in [0, rho*] = [0, {self.rho_star:.6g}]")


def bounds(reward: ArrayLike, seconds: ArrayLike, p: ArrayLike | None = None) -> Bounds:
    """Constants and bounds of the bandit with these mean tables. Rewards must not be negative (assumption A1)."""
    reward_xa, seconds_xa = check_tables(reward, seconds)
    check_p(p, len(reward_xa))
    if (reward_xa < 0).any():
        raise InputError("reward", float(reward_xa.min()), "rewards must not be negative here (assumption A1)")
    rho_star = optimal_rate(reward_xa, seconds_xa, p)
    gap = 0.0 if _tied(reward_xa, seconds_xa, rho_star) else margin(reward_xa, seconds_xa, rho_star)
    return Bounds(
        rho_star=rho_star,
        rho_max=float(reward_xa.max() / seconds_xa.min()),
        delta_min=float(seconds_xa.min()),
        delta_max=float(seconds_xa.max()),
        delta_spr=float((seconds_xa.max(axis=1) - seconds_xa.min(axis=1)).max()),
        Delta_star=gap,
        actions=reward_xa.shape[1],
    )


def _tied(reward_xa: Array, seconds_xa: Array, rate: float) -> bool:
    """Whether in some context the two best actions differ by no more than rounding."""
    if reward_xa.shape[1] == 1:
        return False
    q_xa, size_xa = reward_xa - rate * seconds_xa, reward_xa + rate * seconds_xa
    top = np.argsort(q_xa, axis=1)[:, -2:]
    q, size = np.take_along_axis(q_xa, top, axis=1), np.take_along_axis(size_xa, top, axis=1)
    return bool((q[:, 1] - q[:, 0] <= 1e-13 * size.max(axis=1)).any())
