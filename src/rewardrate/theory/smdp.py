"""A finite semi-Markov decision process, solved exactly: rate, differential values, policy gradient, optimum."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.errors import InputError, did_you_mean
from rewardrate.theory.npg import softmax
from rewardrate.theory.tables import Array, check_policy, check_tables

Method = Literal["policy", "value"]


class Values(NamedTuple):
    """Differential values of a policy: V(s) and Q(s, a), with the stationary mean of V at 0."""

    state: Array
    action: Array


class Optimum(NamedTuple):
    """The best rate, a deterministic policy that earns it (one action per state), and its differential values."""

    rate: float
    policy: NDArray[np.int64]
    values: Values


class SMDP:
    """States S, actions A: transition (S x A x S), mean reward (S x A) and mean seconds (S x A).

    A policy is one action per state or S x A probabilities. Its rate is one number only if its chain has a single
    recurrent class (the paper assumes a unique stationary distribution); a policy without one is refused.
    Paper, appendix "Semi-MDP Policy Gradient Theorem".
    """

    def __init__(self, transition: ArrayLike, reward: ArrayLike, seconds: ArrayLike) -> None:
        self.reward, self.seconds = check_tables(reward, seconds)
        states, actions = self.reward.shape
        self.transition = np.asarray(transition, dtype=float)
        if self.transition.shape != (states, actions, states):
            expected = f"{states} x {actions} x {states} (from reward)"
            raise InputError("transition", f"shape {self.transition.shape}", f"it must be {expected}")
        if not (np.isfinite(self.transition).all() and (self.transition >= 0).all()):
            place = [int(i) for i in np.argwhere(~(np.isfinite(self.transition) & (self.transition >= 0)))[0]]
            raise InputError(
                f"transition{place}",
                float(self.transition[tuple(place)]),
                "a probability must be finite and not negative",
            )
        off = np.argwhere(np.abs(self.transition.sum(axis=2) - 1) > 1e-9)
        if off.size:
            s, a = (int(i) for i in off[0])
            row = self.transition[s, a]
            raise InputError(f"transition[{s}, {a}]", row.tolist(), f"it sums to {row.sum():.12g}; it must sum to 1")

    @property
    def states(self) -> int:
        """How many states."""
        return int(self.reward.shape[0])

    @property
    def actions(self) -> int:
        """How many actions."""
        return int(self.reward.shape[1])

    def stationary(self, policy: ArrayLike) -> Array:
        """D with d = d P_policy and sum 1. Refused if the policy has more than one recurrent class."""
        return self._stationary(self._probabilities(policy))

    def rate(self, policy: ArrayLike) -> float:
        """Long-run reward per second, E_d[reward] / E_d[seconds]."""
        pi_sa = self._probabilities(policy)
        joint_sa = self._stationary(pi_sa)[:, None] * pi_sa
        return float((joint_sa * self.reward).sum() / (joint_sa * self.seconds).sum())

    def values(self, policy: ArrayLike) -> Values:
        """V = r_pi - rate * seconds_pi + P_pi V with d . V = 0, and Q(s, a) = r - rate * seconds + sum_s' P V(s')."""
        pi_sa = self._probabilities(policy)
        d_s = self._stationary(pi_sa)
        joint_sa = d_s[:, None] * pi_sa
        rate = float((joint_sa * self.reward).sum() / (joint_sa * self.seconds).sum())
        relative_sa = self.reward - rate * self.seconds
        chain_ss = self._chain(pi_sa)
        # The matrix is I - P + 1 d: non-singular for one recurrent class, and its solution has d . V = 0.
        matrix = np.eye(self.states) - chain_ss + d_s[None, :]
        v_s = np.linalg.solve(matrix, (pi_sa * relative_sa).sum(axis=1))
        return Values(v_s, relative_sa + self.transition @ v_s)

    def gradient(self, theta: ArrayLike) -> Array:
        """Exact gradient of the rate in the logits of a softmax policy (S x A). Paper, equation (prelim:pg thm).

        d rate / d theta(s, a) = d(s) pi(a|s) (Q(s, a) - V(s)) / E[seconds]
        """
        logits = np.asarray(theta, dtype=float)
        if logits.shape != self.reward.shape or not np.isfinite(logits).all():
            raise InputError(
                "theta", f"shape {logits.shape}", f"it must be {self.states} x {self.actions} finite numbers"
            )
        pi_sa = softmax(logits)
        d_s = self._stationary(pi_sa)
        v_s, q_sa = self.values(pi_sa)
        mean_seconds = float((d_s[:, None] * pi_sa * self.seconds).sum())
        return d_s[:, None] * pi_sa * (q_sa - v_s[:, None]) / mean_seconds

    def optimal(self, method: Method = "policy", *, tolerance: float = 1e-12) -> Optimum:
        """The best rate and a policy that earns it.

        "policy": Howard's policy iteration, exact; falls back to "value" if it meets a policy with several recurrent
        classes. "value": relative value iteration on the equivalent discrete-time process (Schweitzer, 1971), until
        the bounds on the rate are `tolerance` apart (relative).
        """
        if method == "policy":
            try:
                return self._policy_iteration()
            except InputError:
                return self._value_iteration(tolerance)
        if method == "value":
            return self._value_iteration(tolerance)
        raise InputError("method", method, "there is no such method", did_you_mean(str(method), ("policy", "value")))

    def _policy_iteration(self) -> Optimum:
        rows = np.arange(self.states)
        policy = (self.reward / self.seconds).argmax(axis=1)
        while True:
            rate, values = self.rate(policy), self.values(policy)
            scale = np.abs(values.action).max() + 1e-300
            best = values.action.argmax(axis=1)
            gain = values.action[rows, best] - values.action[rows, policy]
            better = gain > 1e-11 * scale  # keep the old action on ties: the rates then rise and it must end
            if not better.any():
                return Optimum(rate, policy, values)
            policy = np.where(better, best, policy)

    def _value_iteration(self, tolerance: float) -> Optimum:
        """Schweitzer's process: reward r / seconds, P' = I + (tau / seconds)(P - I); same rate, aperiodic."""
        tau = 0.5 * self.seconds.min()
        rates_sa = self.reward / self.seconds
        shift_sa1 = (tau / self.seconds)[:, :, None]
        eye_s1s = np.eye(self.states)[:, None, :]
        chain_sas = eye_s1s + shift_sa1 * (self.transition - eye_s1s)
        v_s = np.zeros(self.states)
        scale = float(np.abs(rates_sa).max()) or 1.0
        for _ in range(200_000):
            new_s = (rates_sa + chain_sas @ v_s).max(axis=1)
            change = new_s - v_s
            v_s = new_s - new_s[0]
            if change.max() - change.min() <= tolerance * scale:
                break
        else:
            raise InputError(
                "transition", f"{self.states} states", "the best rate depends on where one starts", "link the states"
            )
        rate = float(change.max() + change.min()) / 2
        state = v_s * tau  # back to the units of the semi-Markov equation
        action_sa = self.reward - rate * self.seconds + self.transition @ state
        policy = action_sa.argmax(axis=1)
        return Optimum(rate, policy, Values(state, action_sa))

    def _probabilities(self, policy: ArrayLike) -> Array:
        return check_policy(policy, self.states, self.actions)

    def _chain(self, pi_sa: Array) -> Array:
        return np.asarray(np.einsum("sa,sat->st", pi_sa, self.transition))

    def _stationary(self, pi_sa: Array) -> Array:
        chain_ss = self._chain(pi_sa)
        classes = recurrent_classes(chain_ss)
        if len(classes) > 1:
            raise InputError(
                "policy",
                f"{len(classes)} recurrent classes",
                "its rate depends on the first state",
                "give a policy that links them",
            )
        inside = np.array(classes[0])
        block = chain_ss[np.ix_(inside, inside)]
        system = np.vstack([(np.eye(len(inside)) - block).T[:-1], np.ones(len(inside))])
        d_s = np.zeros(self.states)
        d_s[inside] = np.linalg.solve(system, np.append(np.zeros(len(inside) - 1), 1.0))
        d_s = np.maximum(d_s, 0.0)
        return np.asarray(d_s / d_s.sum())


def recurrent_classes(chain: Array) -> list[list[int]]:
    """Closed communicating classes of a Markov chain: where it ends up."""
    from scipy.sparse.csgraph import connected_components

    links = chain > 0
    count, label = connected_components(links, directed=True, connection="strong")
    leaves = np.zeros(count, bool)
    source, target = np.nonzero(links)
    leaves[label[source[label[source] != label[target]]]] = True
    return [np.flatnonzero(label == c).tolist() for c in range(count) if not leaves[c]]
