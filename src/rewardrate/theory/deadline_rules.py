"""Prices of a second before a deadline, and the agent that takes the action of the largest reward - price * seconds.

Let the level J (mean reward of an attempt) approach `best` exponentially, by `slope` per second now: after N = left / d
more attempts it is J(T) = best - headroom * exp(-u), with headroom = best - J and u = slope * left / headroom. A change
of policy that makes the i-th attempt from now f_i * y seconds longer takes A y seconds in all, A = f_1 + ... + f_N, and
each of them costs the derivative of J(T) in time, slope * exp(-u). Of a reward that is larger by x, K x is there at T.
So the change pays at T if and only if x - price * y > 0 with

    price = slope * exp(-u) * A / K

to first order in x and y. The prices below are its cases (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewardrate.theory.deadline_problems import DeadlineProblem
from rewardrate.theory.finite_horizon import Whole
from rewardrate.theory.tables import Array

MEMORY = 2.0  # attempts: in the row of kinds a policy is at most four places from where it should be
LARGEST = 1e100  # of a price: more than any reward in the laboratory


@dataclass(frozen=True)
class DeadlineForecast:
    """What the exponential says of a problem, by seconds left (0 .. T) and state."""

    rate: Array
    "S: level per second, the reward rate of the policy as it is."
    slope: Array
    "S: how much the level rises per second."
    attempts: Array
    "T x S: N."
    left_share: Array
    "T x S: exp(-u), the share of the headroom that will still be there at T."
    level: Array
    "T x S: J(T)."

    @classmethod
    def of(cls, problem: DeadlineProblem) -> DeadlineForecast:
        """The forecast of a problem."""
        left_T1 = np.arange(problem.budget + 1.0)[:, None]
        slope_S = problem.gain / problem.mean_seconds
        headroom_S = np.maximum(problem.best - problem.level, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share_TS = np.where(headroom_S > 0, np.exp(-slope_S * left_T1 / headroom_S), 0.0)
        return cls(
            rate=problem.level / problem.mean_seconds,
            slope=slope_S,
            attempts=left_T1 / problem.mean_seconds,
            left_share=share_TS,
            level=problem.level + headroom_S * (1 - share_TS),
        )


PriceOf = Callable[
    [DeadlineProblem, DeadlineForecast, Array], Array
]  # the third: exact values by seconds left and state


def _horizon(problem: DeadlineProblem, forecast: DeadlineForecast, value_TS: Array) -> Array:
    """A = N, K = 1: a choice for all of the time left. `rates.Horizon`."""
    return forecast.slope * forecast.left_share * forecast.attempts


def _elasticity(problem: DeadlineProblem, forecast: DeadlineForecast, value_TS: Array) -> Array:
    """A = N, K = J(T) / J: the same where learning multiplies the rewards of all kinds.

    price = J / d * (d log J(T) / d log N)
    """
    return _horizon(problem, forecast, value_TS) * problem.level / np.maximum(forecast.level, 1 / LARGEST)


def _slope(problem: DeadlineProblem, forecast: DeadlineForecast, value_TS: Array) -> Array:
    """A = 1, K = exp(-u): a choice for one attempt, whose gain is kept and would partly have come anyway."""
    return np.broadcast_to(forecast.slope, value_TS.shape)


def _memory(problem: DeadlineProblem, forecast: DeadlineForecast, value_TS: Array) -> Array:
    """f_i = exp(-i / M): a choice that is forgotten after M attempts. A = M (1 - exp(-N / M)), K = exp(-N / M)."""
    grown = np.expm1(np.minimum(forecast.attempts / MEMORY, np.log(LARGEST)))
    return forecast.slope * forecast.left_share * MEMORY * grown


def marginal(problem: DeadlineProblem, value_TS: Array) -> Array:
    """The exact value of a second, averaged over those of the next attempt: dV / d left, which is a staircase."""
    states = np.arange(problem.level.size)
    length_S = np.maximum(np.rint(problem.mean_seconds).astype(int), 1)
    before_TS = np.maximum(np.arange(len(value_TS))[:, None] - length_S, 0)
    return np.asarray((value_TS - value_TS[before_TS, states]) / length_S)


PRICES: dict[str, PriceOf] = {
    "vanilla": lambda problem, forecast, value_TS: np.zeros_like(value_TS),
    "rate": lambda problem, forecast, value_TS: np.broadcast_to(forecast.rate, value_TS.shape),
    "optimal rate": lambda problem, forecast, value_TS: np.broadcast_to(
        (problem.reward / problem.horizon.seconds).max(axis=1), value_TS.shape
    ),
    "rate / 4": lambda problem, forecast, value_TS: np.broadcast_to(forecast.rate / 4, value_TS.shape),
    "horizon": _horizon,
    "rate x elasticity": _elasticity,
    "slope": _slope,
    "memory of 2 attempts": _memory,
    "slope x exp(-u)": lambda problem, forecast, value_TS: forecast.slope * forecast.left_share,
    "exact dV/dleft": lambda problem, forecast, value_TS: marginal(problem, value_TS),
}


def greedy(problem: DeadlineProblem, price_TS: Array) -> Whole:
    """The action of the largest reward - price * seconds, with 0 .. T seconds left in each state."""
    charged_TSA = problem.reward - price_TS[:, :, None] * problem.horizon.seconds
    return np.asarray(charged_TSA.argmax(axis=2), dtype=np.int64)


def greedy_in_values(problem: DeadlineProblem, value_TS: Array) -> Whole:
    """The same with the exact value of the next state in place of the reward: what is wrong here is the straight line.

    E V(t - d, s')  is taken for  E V(t, s') - d * dV(t, s)/dt
    """
    horizon = problem.horizon
    chance_SA = horizon.chance
    next_TSA = chance_SA * value_TS[:, horizon.success] + (1 - chance_SA) * value_TS[:, horizon.failure]
    return np.asarray(
        (next_TSA - marginal(problem, value_TS)[:, :, None] * horizon.seconds).argmax(axis=2), dtype=np.int64
    )
