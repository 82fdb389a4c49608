"""Run one untrusted script under limits, time it, say what happened."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate.sandbox.job import Job as Job
    from rewardrate.sandbox.limits import Limits as Limits
    from rewardrate.sandbox.pool import Executor as Executor
    from rewardrate.sandbox.pool import Pool as Pool
    from rewardrate.sandbox.result import Result as Result
    from rewardrate.sandbox.runner import run as run

__all__ = ["Executor", "Job", "Limits", "Pool", "Result", "run"]

# Loaded on first use: the init inside a box imports `rewardrate.sandbox.box` and must not pay for the rest.
_LAZY = {
    "Executor": "pool",
    "Job": "job",
    "Limits": "limits",
    "Pool": "pool",
    "Result": "result",
    "run": "runner",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
