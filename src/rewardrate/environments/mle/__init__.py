"""Machine-learning tasks: prompts, scripts, grading, rewards, MLE-Bench."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate.environments.mle.environment import MachineLearning as MachineLearning
    from rewardrate.environments.mle.folder import load as load
    from rewardrate.environments.mle.task import Grade as Grade
    from rewardrate.environments.mle.task import Task as Task

__all__ = ["Grade", "MachineLearning", "Task", "load"]

# Loaded on first use: listing tasks must not cost the import of pandas.
_LAZY = {"Grade": "task", "MachineLearning": "environment", "Task": "task", "load": "folder"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
