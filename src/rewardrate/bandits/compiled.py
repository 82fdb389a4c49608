"""How the laboratory's inner loops are compiled: one decorator for the CPU and, through CUDA kernels, for the GPU.

A function under `jit` is compiled by numba on first use; a CUDA kernel that calls it compiles the same source for the
GPU. Machine code is cached beside the source, so the next process starts at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from rewardrate.errors import MissingExtra

try:
    import numba
except ImportError:
    raise MissingExtra("the bandit laboratory", "numba", "bandit") from None

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be added in any order (vectors), products fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}


def jit(function: Function) -> Function:
    """Compile on first use and cache the machine code on disk."""
    return cast(Function, cached(numba.njit(cache=True, **OPTIONS)(function)))


def exact(function: Function) -> Function:
    """`jit` with every sum in the order in which it is written, so that equal policies have equal bits.

    numba compiles a function once more for every constant it is called with, so functions here pass variables.
    """
    return cast(Function, cached(numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=False)(function)))


def exact_inline(function: Function) -> Function:
    """`exact`, expanded at every call: for a short function in an inner loop."""
    return cast(Function, numba.njit(error_model="numpy", fastmath=False, inline="always")(function))


def jit_fresh(function: Function) -> Function:
    """Compile in every process: for loops made around an agent's own functions, which a cache cannot identify."""
    return cast(Function, numba.njit(**OPTIONS)(function))


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a compiled one (or itself)."""
    return cast(Callable[..., Any], getattr(function, "py_func", function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether numba already owns it."""
    return isinstance(function, numba.core.dispatcher.Dispatcher)


def cached(dispatcher: Any) -> Any:
    """Let a cached function be compiled anew when any source of the package has changed."""
    # numba compares the cache's stamp with the file of the outer function alone, although callees were inlined from
    # other files. Its index file is given the stamp of all sources instead; numba then ignores and overwrites what is
    # stale. Without a cache (NUMBA_DISABLE_JIT) there is nothing to stamp.
    index: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = source_stamp(Path(__file__).parent)
    return dispatcher


@cache
def source_stamp(folder: Path) -> tuple[float, int]:
    """Newest modification time and total size of the Python files in a folder and below."""
    files = [path.stat() for path in folder.rglob("*.py")]
    return max(file.st_mtime for file in files), sum(file.st_size for file in files)
