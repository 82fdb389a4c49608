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
        self.transition = self.transition / self.transition.sum(axis=2, keepdims=True)

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
        # The matrix is I - P + 1 d: non-singular for one recurrent class, and its solution has d . V = 0. The diagonal
        # of I - P is summed from the ways out, so that rare ones keep their digits.
        leave_ss = -self._chain(pi_sa)
        np.fill_diagonal(leave_ss, 0.0)
        np.fill_diagonal(leave_ss, -leave_ss.sum(axis=1))
        try:
            v_s = np.linalg.solve(leave_ss + d_s[None, :], (pi_sa * relative_sa).sum(axis=1))
        except np.linalg.LinAlgError:
            raise InputError("policy", "a chain that hardly mixes", "its values do not fit 64-bit arithmetic") from None
        v_s = v_s - d_s @ v_s
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

        "policy": Howard's policy iteration, exact. Where it meets a policy with several recurrent classes it starts
        again from the solution of the linear program over state-action frequencies. "value": relative value iteration
        on the equivalent discrete-time process (Schweitzer, 1971), until the bounds on the rate are `tolerance` apart
        (relative). Refused if the best rate depends on the first state.
        """
        if method == "policy":
            try:
                return self._policy_iteration((self.reward / self.seconds).argmax(axis=1))
            except InputError:
                return self._policy_iteration(self._linear_program(), keep=True)
        if method == "value":
            return self._value_iteration(tolerance)
        raise InputError("method", method, "there is no such method", did_you_mean(str(method), ("policy", "value")))

    def _policy_iteration(self, policy: NDArray[np.int64], *, keep: bool = False) -> Optimum:
        """Improve until no action does. `keep`: stop, rather than fail, where a step would split the chain."""
        rows = np.arange(self.states)
        rate, values = self.rate(policy), self.values(policy)
        for _ in range(10_000):
            # Gains are compared with the size of the terms they are differences of: below that they are rounding.
            size_sa = np.abs(self.reward) + abs(rate) * self.seconds + self.transition @ np.abs(values.state)
            best = values.action.argmax(axis=1)
            gain = values.action[rows, best] - values.action[rows, policy]
            better = gain > 1e-12 * np.maximum(size_sa[rows, best], size_sa[rows, policy])  # old action kept on ties
            if not better.any():
                break
            following = np.where(better, best, policy)
            try:
                new_rate, new_values = self.rate(following), self.values(following)
            except InputError:
                if keep:
                    break
                raise
            if new_rate < rate:  # rounding: policy iteration never gets worse
                break
            policy, rate, values = following, new_rate, new_values
        return Optimum(rate, policy, values)

    def _linear_program(self) -> NDArray[np.int64]:
        """A policy that leads every state to the recurrent class with the best rate."""
        from scipy.optimize import linprog

        # Maximise reward per second over state-action frequencies: flow balance in every state, one second in total.
        # The support of the solution is an optimal recurrent class; outside of it any way into the class will do.
        scale_s, scale_r = self.seconds.max(), np.abs(self.reward).max() or 1.0
        out = np.repeat(np.eye(self.states), self.actions, axis=1)
        balance = out - self.transition.reshape(-1, self.states).T
        equations = np.vstack([balance, self.seconds.ravel() / scale_s])
        found = linprog(-self.reward.ravel() / scale_r, A_eq=equations, b_eq=np.append(np.zeros(self.states), 1.0))
        if found.status != 0:
            raise InputError(
                "transition", f"{self.states} states", f"the linear program has no answer ({found.message})"
            )
        frequency_sa = found.x.reshape(self.states, self.actions)
        policy = frequency_sa.argmax(axis=1)
        classes = recurrent_classes(self.transition[np.arange(self.states), policy])
        used = [c for c in classes if frequency_sa[c].sum() > 0] or classes
        return self._towards(max(used, key=lambda c: self._class_rate(policy, c)), policy)

    def _class_rate(self, policy: NDArray[np.int64], members: list[int]) -> float:
        block = self.transition[members, policy[members]][:, members]
        d = gth(block)
        return float(d @ self.reward[members, policy[members]] / (d @ self.seconds[members, policy[members]]))

    def _towards(self, members: list[int], policy: NDArray[np.int64]) -> NDArray[np.int64]:
        """The policy inside `members`; elsewhere an action with a chance of coming closer to them."""
        policy, inside = policy.copy(), np.zeros(self.states, bool)
        inside[members] = True
        while not inside.all():
            reach_sa = self.transition[:, :, inside].sum(axis=2)
            reach_sa[inside] = 0.0
            new = reach_sa.max(axis=1) > 0
            if not new.any():
                stuck = np.flatnonzero(~inside).tolist()
                rule = "the best rate cannot be reached from there, so it depends on where one starts"
                raise InputError("transition", f"states {stuck}", rule, "link the states")
            policy[new] = reach_sa[new].argmax(axis=1)
            inside |= new
        return policy

    def _value_iteration(self, tolerance: float, sweeps: int = 200_000) -> Optimum:
        """Schweitzer's process: reward r / seconds, P' = I + (tau / seconds)(P - I); same rate, aperiodic."""
        tau = 0.5 * self.seconds.min()
        rates_sa = self.reward / self.seconds
        shift_sa1 = (tau / self.seconds)[:, :, None]
        eye_s1s = np.eye(self.states)[:, None, :]
        chain_sas = eye_s1s + shift_sa1 * (self.transition - eye_s1s)
        v_s = np.zeros(self.states)
        for _ in range(sweeps):
            new_s = (rates_sa + chain_sas @ v_s).max(axis=1)
            change = new_s - v_s
            v_s = new_s - new_s[0]
            if change.max() - change.min() <= tolerance * max(abs(change.max()), abs(change.min())):
                break
        else:
            between = f"the rate lies between {change.min():.6g} and {change.max():.6g}"
            remedy = "use method 'policy', or a larger tolerance"
            raise InputError("method", "value", f"{sweeps:,} sweeps were not enough: {between}", remedy)
        rate = float(change.max() + change.min()) / 2
        action_sa = self.reward - rate * self.seconds + self.transition @ (v_s * tau)  # back in the units of the SMDP
        policy = action_sa.argmax(axis=1)
        try:
            return Optimum(self.rate(policy), policy, self.values(policy))
        except InputError:  # several classes with one rate: no single stationary distribution to centre V on
            return Optimum(rate, policy, Values(v_s * tau, action_sa))

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
        d_s = np.zeros(self.states)
        d_s[classes[0]] = gth(chain_ss[np.ix_(classes[0], classes[0])])
        return d_s


def gth(chain: Array) -> Array:
    """Stationary distribution of an irreducible chain by elimination without subtraction (Grassmann, Taksar, Heyman).

    Only the ways between different states are used, so every entry is right to rounding however rare they are.
    """
    assert chain.ndim == 2
    assert chain.shape[0] == chain.shape[1]
    a = chain.copy()
    size = len(a)
    # Censor the chain on its first n states, the last state out at each turn: a visit to n becomes a direct transition
    # between the others. The normaliser is the sum of the ways out of n, where elimination would subtract from one.
    for n in range(size - 1, 0, -1):
        a[:n, n] /= a[n, :n].sum()
        a[:n, :n] += np.outer(a[:n, n], a[n, :n])
    d = np.ones(size)
    for n in range(1, size):
        d[n] = d[:n] @ a[:n, n]
    return np.asarray(d / d.sum())


def recurrent_classes(chain: Array) -> list[list[int]]:
    """Closed communicating classes of a Markov chain: where it ends up."""
    from scipy.sparse.csgraph import connected_components

    assert chain.ndim == 2
    assert chain.shape[0] == chain.shape[1]
    # A communicating class is a strong component of the graph; it is closed if no edge leaves it.
    links = chain > 0
    count, label = connected_components(links, directed=True, connection="strong")
    leaves = np.zeros(count, bool)
    source, target = np.nonzero(links)
    leaves[label[source[label[source] != label[target]]]] = True
    return [np.flatnonzero(label == c).tolist() for c in range(count) if not leaves[c]]
