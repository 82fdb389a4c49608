"""Base of the reference environments: simulated like any other, solved exactly by `theory.SMDP`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError, did_you_mean
from rewardrate.theory import SMDP, Optimum
from rewardrate.theory.tables import check_policy
from rewardrate.timed.convention import TimedEnv


class Transition(NamedTuple):
    """Result of one action."""

    state: int
    reward: float
    seconds: float


class ReferenceEnv(TimedEnv[np.int64, np.int64]):
    """A continuing task with few states: the observation is the state's number, episodes never end by themselves.

    A subclass simulates (`draw`) and gives the mean tables of the same process (`tables`); tests compare the two. So a
    policy that was learned by simulation can be evaluated without noise: `smdp.rate(policy)`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # one for all, as in Gymnasium
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }
    action_names: ClassVar[tuple[str, ...]] = ()
    "Names of the actions."

    def __init__(self, states: int, *, first: int = 0, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            near = did_you_mean(str(render_mode), self.metadata["render_modes"])
            raise InputError("render_mode", render_mode, "there is no such mode", near)
        self.first, self.state, self.render_mode = first, first, render_mode
        self.observation_space = spaces.Discrete(states)
        self.action_space = spaces.Discrete(len(self.action_names))
        self.smdp = SMDP(*self.tables())

    @abstractmethod
    def tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Transition (S x A x S), mean reward and mean seconds (S x A)."""

    @abstractmethod
    def draw(self, state: int, action: int, rng: np.random.Generator) -> Transition:
        """One action in one state, at random."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Reset to the first state, or to options["state"]."""
        super().reset(seed=seed)
        start = (options or {}).get("state", self.first)
        if not self.observation_space.contains(start):
            raise InputError("options['state']", start, f"a state is a number from 0 to {self.smdp.states - 1}")
        self.state = int(start)
        return np.int64(self.state), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take the action; info holds its seconds."""
        if not self.action_space.contains(action):
            raise InputError("action", action, f"an action is a number from 0 to {self.smdp.actions - 1}")
        self.state, reward, seconds = self.draw(self.state, int(action), self.np_random)
        return np.int64(self.state), reward, False, False, {"seconds": seconds}

    def render(self) -> Any:
        """The state as text, or as a row of cells in which it is bright."""
        if self.render_mode == "ansi":
            return f"{type(self).__name__}: state {self.state} of 0 to {self.smdp.states - 1}"
        if self.render_mode == "rgb_array":
            cells = np.full((1, self.smdp.states, 3), 40, dtype=np.uint8)
            cells[0, self.state] = 230, 159, 0
            return np.kron(cells, np.ones((24, 24, 1), dtype=np.uint8))
        return None

    def exact(self) -> Optimum:
        """The optimal rate, a policy that earns it, and its differential values."""
        return self.smdp.optimal()

    def reward_policy(self, gamma: float = 1.0, *, rate: float = 0.0) -> NDArray[np.int64]:
        """The policy with the best sum of reward - rate * seconds: what an ordinary learner converges to.

        Per step (gamma = 1), or discounted by `gamma` a step. rate=0 is plain reinforcement learning.
        """
        gamma = finite("gamma", gamma, lambda number: 0 <= number <= 1, "lie in [0, 1]")
        rate = finite("rate", rate)
        chain_sas, relative_sa = self.smdp.transition, self.smdp.reward - rate * self.smdp.seconds
        if gamma == 1:
            return SMDP(chain_sas, relative_sa, np.ones_like(relative_sa)).optimal().policy
        rows = np.arange(self.smdp.states)
        policy: NDArray[np.int64] = relative_sa.argmax(axis=1)
        while True:  # Howard's policy iteration ends: each policy is better than the one before
            value_s = np.linalg.solve(np.eye(rows.size) - gamma * chain_sas[rows, policy], relative_sa[rows, policy])
            value_sa = relative_sa + gamma * chain_sas @ value_s
            better = value_sa.max(axis=1) - value_sa[rows, policy] > 1e-10 * np.abs(value_sa).max()
            if not better.any():
                return policy
            policy = np.where(better, value_sa.argmax(axis=1), policy)

    def simulated_rate(self, policy: ArrayLike, steps: int, seed: int = 0) -> float:
        """Reward over seconds of so many simulated steps of a policy: one action per state, or probabilities."""
        chance_sa = np.cumsum(check_policy(policy, self.smdp.states, self.smdp.actions), axis=1)
        rng, state, reward, seconds = np.random.default_rng(seed), self.first, 0.0, 0.0
        for draw in rng.random(at_least("steps", steps, 1)):
            action = min(int((chance_sa[state] <= draw).sum()), self.smdp.actions - 1)
            state, earned, taken = self.draw(state, action, rng)
            reward, seconds = reward + earned, seconds + taken
        return reward / seconds


def positive(name: str, value: float) -> float:
    """A setting of a reference environment: finite and positive."""
    return finite(name, value, lambda number: number > 0, "be finite and positive")


def pair(name: str, values: Any, words: str, each: Callable[[str, Any], float]) -> tuple[float, float]:
    """Two settings of a reference environment, each of them checked; `words` says which they are."""
    try:
        first, second = values
    except (TypeError, ValueError):
        raise InputError(name, values, f"give two numbers: {words}") from None
    return each(name, first), each(name, second)


def not_negative(name: str, value: float) -> float:
    """A setting of a reference environment: finite and not negative."""
    return finite(name, value, lambda number: number >= 0, "be finite, not negative")


def probability(name: str, value: float) -> float:
    """A setting strictly between 0 and 1: at the ends some policies would never come back."""
    return finite(name, value, lambda number: 0 < number < 1, "lie strictly between 0 and 1")
