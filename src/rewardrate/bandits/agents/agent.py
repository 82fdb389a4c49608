"""Interface of an agent: frozen settings, and functions that numba can compile."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from rewardrate.bandits.world import World


def first(state: Any) -> float:
    """The price of an agent whose state is a vector that begins with it."""
    return float(state[0])


class Agent(ABC):
    """An agent sees a context x, plays an action (SKIP is the last), and learns from reward and seconds.

        act(t, x, key, state, p) -> action                           t counts from 1
        learn(t, x, action, reward, seconds, key, state, p)          changes `state` in place
        price(state) -> its price of a second                        for the record only; 0 if it has none

    The three are plain functions over numbers and arrays, which the engine compiles; `state` is what `start` returns
    (an array or a NamedTuple of arrays), `p` the agent's numbers. `key` opens a stream of the agent's own random
    numbers for this step: uniform(key, 0), uniform(key, 1), ... Subclass it as a frozen dataclass with a `name`.
    """

    name: ClassVar[str]
    act: ClassVar[Callable[..., Any]]
    learn: ClassVar[Callable[..., Any]]
    price: ClassVar[Callable[..., Any]] = staticmethod(first)

    @abstractmethod
    def start(self, world: World) -> Any:
        """The state before the first step: fresh memory at every call. It may use the world's shape only."""

    @abstractmethod
    def parameters(self, world: World) -> Any:
        """The numbers that `act` and `learn` get as `p`: a float64 vector."""

    def unproven_steps(self, state: Any) -> int:
        """Steps of a trial at which the agent's result was not proved optimal (exact C-UCB), from its last state."""
        return 0

    def settings(self) -> dict[str, Any]:
        """The agent's own settings by name, for tables and labels."""
        me: Any = self
        fields = dataclasses.fields(me) if dataclasses.is_dataclass(me) else ()
        return {field.name: getattr(self, field.name) for field in fields}
