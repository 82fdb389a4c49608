"""What the CUDA kernels share: how they, and the functions that they call, are compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np
from numba import config, cuda

from rewardrate.bandits.compiled import Function, plain


def device_function(function: Function) -> Function:
    """Compile a function that kernels call."""
    return cast(Function, cuda.jit(device=True)(function))


def compile_for_gpu(functions: Sequence[Callable[..., Any]], names: dict[str, Any]) -> dict[str, Any]:
    """Recompile CPU functions that call one another for kernels, with `names` in place of some globals they use.

    The estimator is written once, against the single-lane `lanes`; here it gets the lanes of a warp instead.
    """
    # A copy of each function's code with a namespace of its own: callees found in it are the device versions, so they
    # must come before their callers in `functions`. The CPU functions and their modules are left untouched.
    namespace: dict[str, Any] = {}
    for function in functions:
        namespace |= plain(function).__globals__
    namespace |= names
    for function in functions:
        source = plain(function)
        namespace[source.__name__] = device_function(FunctionType(source.__code__, namespace, source.__name__))
    return {plain(function).__name__: namespace[plain(function).__name__] for function in functions}


def compile_kernel(function: Callable[..., None], registers: int) -> Any:
    """A kernel whose threads have at most so many registers; numba's simulator has no limit."""
    if config.ENABLE_CUDASIM:
        return cuda.jit(function)
    return cuda.jit(max_registers=registers)(function)


def states_of(batch: Any, stream: Any) -> tuple[Any, Any]:
    """On the GPU: the first state of every configuration, and an array for the state of every trial."""
    starts = np.stack([agent.start(batch.world) for agent in batch.agents])
    trials = len(batch.agents) * len(batch.seeds)
    states = cuda.device_array((trials, starts.shape[1]), np.float64, stream=stream)
    return cuda.to_device(starts, stream=stream), states
