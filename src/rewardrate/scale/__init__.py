"""The same method on engines that others run: Ray, verl, TRL."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate.scale.priced_batch import PricedBatch as PricedBatch
    from rewardrate.scale.ray_executor import RayExecutor as RayExecutor
    from rewardrate.scale.trl_reward import PricedReward as PricedReward

# Name -> module. Loaded on first use: an engine that is not used is not imported.
_LAZY = {"PricedBatch": "priced_batch", "PricedReward": "trl_reward", "RayExecutor": "ray_executor"}
__all__ = ["PricedBatch", "PricedReward", "RayExecutor"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
