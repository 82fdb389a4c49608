"""What the kernels of the card share: how they, and the functions that they call, are compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np
from numba import config, cuda

from rewardrate.bandits.compiled import Function, plain


def on_card(function: Function) -> Function:
    """A function that kernels call."""
    return cast(Function, cuda.jit(device=True)(function))


def retold(functions: Sequence[Callable[..., Any]], names: dict[str, Any]) -> dict[str, Any]:
    """Functions that call one another, compiled for kernels with other things behind some of the names they use."""
    world: dict[str, Any] = {}
    for function in functions:
        world |= plain(function).__globals__
    world |= names
    for function in functions:
        source = plain(function)
        world[source.__name__] = on_card(FunctionType(source.__code__, world, source.__name__))
    return {plain(function).__name__: world[plain(function).__name__] for function in functions}


def kernel_of(function: Callable[..., None], registers: int) -> Any:
    """A kernel whose threads have at most so many registers. numba's simulator has none."""
    if config.ENABLE_CUDASIM:
        return cuda.jit(function)
    return cuda.jit(max_registers=registers)(function)


def states_of(batch: Any, stream: Any) -> tuple[Any, Any]:
    """On the card: the first state of every configuration, and room for the state of every trial."""
    starts = np.stack([agent.start(batch.world) for agent in batch.agents])
    trials = len(batch.agents) * len(batch.seeds)
    room = cuda.device_array((trials, starts.shape[1]), np.float64, stream=stream)
    return cuda.to_device(starts, stream=stream), room
