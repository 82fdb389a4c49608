"""How the laboratory's inner loops are compiled: one decorator, for the CPU and, through it, for the GPU.

A function under `jit` is compiled by numba on first use; a CUDA kernel that calls it compiles the same source for
the card. Machine code is kept beside the source, so the next process starts at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
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
    """Compile on first use and keep the machine code on disk."""
    return cast(Function, numba.njit(cache=True, **OPTIONS)(function))


def jit_fresh(function: Function) -> Function:
    """Compile in every process: for loops made around an agent's own functions, which a cache cannot name."""
    return cast(Function, numba.njit(**OPTIONS)(function))


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The Python function behind a compiled one (or itself)."""
    return cast(Callable[..., Any], getattr(function, "py_func", function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether numba already owns it."""
    return isinstance(function, numba.core.dispatcher.Dispatcher)


def drop_stale_code(room: Path) -> None:
    """Forget machine code that is older than any source of the room.

    numba looks at the file of the outer function alone, but what it calls was inlined from other files.
    """
    newest = max(path.stat().st_mtime for path in room.rglob("*.py"))
    for index in room.rglob("__pycache__/*.nb[ic]"):
        with contextlib.suppress(OSError):
            if index.stat().st_mtime < newest:
                index.unlink()


with contextlib.suppress(OSError):
    drop_stale_code(Path(__file__).parent)
