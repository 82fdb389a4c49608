"""What can be attempted: a proposal in, (valid, reward, seconds, message) out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate.environments.outcome import Environment as Environment
    from rewardrate.environments.outcome import Outcome as Outcome

__all__ = ["Environment", "Outcome"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("rewardrate.environments.outcome"), name)
