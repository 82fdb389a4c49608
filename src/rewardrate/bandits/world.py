"""The worlds of the paper's bandit study: reward and seconds of every arm in every context, and the optimal rate.

Tables are contexts x actions (suffix _xa): the arms first, SKIP last. Paper, section "Experiment Setup".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from rewardrate.checks import at_least
from rewardrate.errors import InputError, did_you_mean
from rewardrate.theory import F, greedy_policy, policy_rate

Array = NDArray[np.float64]
Policy = NDArray[np.int64]

REWARD_NOISE = 0.20  # sigma_r
TIME_NOISE = 0.15  # share of the mean
LOG_SPREAD = 0.5  # sigma_log
LEAST_SECONDS = 0.5  # floor of every arm's seconds; SKIP is quicker
SKIP = (0.0, 0.35)  # reward and seconds, without noise

DESIGNED = ((0.50, 1.0), (0.57, 1.2), (0.90, 3.0), (0.21, 0.6))  # best, decoy, trap, fast
COUPLING = ((1.80, 2.0), (1.00, 1.0), (1.60, 3.0), (0.20, 0.6))  # slow and rich, fast and lean, and the two others
FILLER_RATES = (0.42, 0.18)
FILLER_SECONDS = (0.70, 2.00)
SCALES = {"rich": 1.50, "marginal": 1.00, "poor": 0.32}
FILLER_SCALES = (1.35, 0.42)
CONTEXTS = ("rich", "coupling", "marginal", "poor")


class WorldFamily(NamedTuple):
    """How reward and time depend on each other."""

    correlation: float
    "Of the two standard normals behind a draw (the copula's varrho)."
    lognormal: bool
    summary: str


FAMILIES = {
    "E1": WorldFamily(0.0, False, "reward and time independent"),
    "E2": WorldFamily(0.8, False, "a high reward tends to be slow"),
    "E3": WorldFamily(-0.8, False, "a high reward tends to be quick"),
    "E4": WorldFamily(0.5, True, "both lognormal, heavy tails, a high reward tends to be slow"),
}


@dataclass(frozen=True)
class World:
    """A bandit whose actions take time: `arms` arms and SKIP in each of `contexts` equally likely contexts.

    The tables are a function of (arms, contexts) alone; the family decides how draws scatter around them. Arms are
    best, decoy, trap, fast, then fillers of falling rate; contexts rich, coupling, marginal, poor, then fillers.
    A trial sees arms and contexts permuted. At least 5 arms and 4 contexts: those of the design.
    """

    family: str
    arms: int
    contexts: int

    MOST_ARMS: ClassVar[int] = 10_000
    MOST_CONTEXTS: ClassVar[int] = 10_000
    MOST_CELLS: ClassVar[int] = 10_000_000  # arms times contexts: tables of 80 MB

    def __post_init__(self) -> None:
        if not isinstance(self.family, str) or self.family not in FAMILIES:
            raise InputError("family", self.family, "there is no such family", did_you_mean(str(self.family), FAMILIES))
        for name, least, most in (("arms", 5, self.MOST_ARMS), ("contexts", 4, self.MOST_CONTEXTS)):
            number = at_least(name, getattr(self, name), least)
            if number > most:
                raise InputError(name, number, f"it must be at most {most:,}")
            object.__setattr__(self, name, number)
        if self.arms * self.contexts > self.MOST_CELLS:
            size = f"{self.arms} x {self.contexts}"
            raise InputError("arms x contexts", size, f"it must be at most {self.MOST_CELLS:,}", "take fewer of either")

    @property
    def actions(self) -> int:
        """Arms and SKIP, which is the last action."""
        return self.arms + 1

    @cached_property
    def _design(self) -> tuple[Array, Array]:
        fillers = self.arms - len(DESIGNED)
        rng = np.random.default_rng((self.arms, self.contexts))
        seconds = np.array([pair[1] for pair in DESIGNED] + rng.uniform(*FILLER_SECONDS, fillers).tolist())
        rates = np.linspace(*FILLER_RATES, fillers)
        reward = np.concatenate([[pair[0] for pair in DESIGNED], rates * seconds[len(DESIGNED) :]])
        reward_xa = np.outer(self.scales, reward)
        seconds_xa = np.tile(seconds, (self.contexts, 1))
        here = CONTEXTS.index("coupling")
        reward_xa[here, : len(COUPLING)], seconds_xa[here, : len(COUPLING)] = np.array(COUPLING).T
        return reward_xa, seconds_xa

    @cached_property
    def scales(self) -> Array:
        """Reward scale beta_x of every context; coupling stands at 1, which its fillers have."""
        fillers = self.contexts - len(CONTEXTS)
        high, low = FILLER_SCALES
        middles = high - (high - low) * (np.arange(fillers) + 0.5) / max(fillers, 1)
        return np.array([SCALES.get(name, 1.0) for name in CONTEXTS] + middles.tolist())

    @property
    def mean_reward(self) -> Array:
        """Design mean of the reward, contexts x arms, before rectification and without SKIP."""
        return self._design[0].copy()

    @property
    def mean_seconds(self) -> Array:
        """Design mean of the seconds, contexts x arms, before the floor and without SKIP."""
        return self._design[1].copy()

    @cached_property
    def _true(self) -> tuple[Array, Array]:
        reward_xa, seconds_xa = self._design
        if FAMILIES[self.family].lognormal:
            means = reward_xa, floored_lognormal_mean(seconds_xa, LEAST_SECONDS)
        else:
            means = (
                rectified_normal_mean(reward_xa, np.full_like(reward_xa, REWARD_NOISE), 0.0),
                rectified_normal_mean(seconds_xa, TIME_NOISE * seconds_xa, LEAST_SECONDS),
            )
        reward, seconds = (
            np.column_stack([table, np.full(self.contexts, skip)]) for table, skip in zip(means, SKIP, strict=True)
        )
        return reward, seconds

    @property
    def true_reward(self) -> Array:
        """E[reward] after rectification, contexts x actions, SKIP last: in closed form."""
        return self._true[0].copy()

    @property
    def true_seconds(self) -> Array:
        """E[seconds] after the floor, contexts x actions, SKIP last: in closed form."""
        return self._true[1].copy()

    @cached_property
    def optimal_rate(self) -> float:
        """rho*, the root of F(rho) = mean_x max_a (E[r] - rho E[delta]), by bisection down to neighbouring floats."""
        return bisect_rate(*self._true)

    @property
    def residual(self) -> float:
        """F(rho*): zero up to rounding."""
        return F(*self._true, None, self.optimal_rate)

    def greedy_policy(self, rate: float | None = None) -> Policy:
        """The action with the best relative value in each context at a price (default: rho*, the optimal policy)."""
        return greedy_policy(*self._true, self.optimal_rate if rate is None else rate)

    def rate_greedy_policy(self) -> Policy:
        """The action with the best rate of its own in each context: not optimal, since contexts share one clock."""
        reward, seconds = self._true
        return np.asarray((reward / seconds).argmax(axis=1))

    def rate(self, policy: Policy) -> float:
        """The rate of a policy: one action per context, or contexts x actions probabilities."""
        return policy_rate(*self._true, None, policy)


def rectified_normal_mean(mean: Array, spread: Array, floor: float) -> Array:
    """E[max(X, floor)] of a normal X. Paper, equation before (bandit:closedform)."""
    a = (floor - mean) / spread
    density = np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    return np.asarray(floor * ndtr(a) + mean * ndtr(-a) + spread * density)


def floored_lognormal_mean(mean: Array, floor: float) -> Array:
    """E[max(Y, floor)] of a lognormal Y with this mean and spread LOG_SPREAD. Paper, equation (bandit:closedform)."""
    b = (math.log(floor) - np.log(mean) + LOG_SPREAD**2 / 2) / LOG_SPREAD
    return np.asarray(floor * ndtr(b) + mean * ndtr(LOG_SPREAD - b))


def bisect_rate(reward_xa: Array, seconds_xa: Array) -> float:
    """The root of F, equation (bandit:fixedpoint), between the extreme rates of single actions, to the last float."""
    assert reward_xa.ndim == 2
    assert reward_xa.shape == seconds_xa.shape
    ratios = reward_xa / seconds_xa
    low, high = float(ratios.min()), float(ratios.max())
    while True:  # until no float lies between; of the two neighbours, the one with the smaller residual
        middle = low + (high - low) / 2
        if middle in (low, high):
            return min((low, high), key=lambda rate: abs(F(reward_xa, seconds_xa, None, rate)))
        if F(reward_xa, seconds_xa, None, middle) > 0:
            low = middle
        else:
            high = middle
