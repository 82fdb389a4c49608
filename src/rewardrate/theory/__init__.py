"""The exact mathematics: optimal rate, Dinkelbach iteration, SMDP gradient, bounds."""

from rewardrate.theory.bandit import F, greedy_policy, margin, optimal_rate, policy_rate, relative_value
from rewardrate.theory.dinkelbach import dinkelbach
from rewardrate.theory.finite_horizon import FiniteHorizon
from rewardrate.theory.guarantees import Bounds, bounds
from rewardrate.theory.npg import NPGStep, npg
from rewardrate.theory.smdp import SMDP, Optimum, Values

__all__ = [
    "SMDP",
    "Bounds",
    "F",
    "FiniteHorizon",
    "NPGStep",
    "Optimum",
    "Values",
    "bounds",
    "dinkelbach",
    "greedy_policy",
    "margin",
    "npg",
    "optimal_rate",
    "policy_rate",
    "relative_value",
]
