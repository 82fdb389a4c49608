"""Reward-rate reinforcement learning: maximise long-run reward per second."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate import rates as rates
    from rewardrate import theory as theory
    from rewardrate.errors import InputError as InputError
    from rewardrate.rates.relative import relative_reward as relative_reward

__version__ = "0.1.0"
__all__ = ["InputError", "__version__", "rates", "relative_reward", "theory"]

# Name -> module that defines it (None: the module itself). Loaded on first use, so that `import rewardrate`
# and `rewardrate --help` cost no numpy.
_LAZY = {
    "InputError": "rewardrate.errors",
    "relative_reward": "rewardrate.rates.relative",
    "rates": None,
    "theory": None,
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _LAZY[name]
    value = (
        importlib.import_module(f"{__name__}.{name}") if home is None else getattr(importlib.import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
