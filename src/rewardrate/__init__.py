"""Reward-rate reinforcement learning: maximise long-run reward per second."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate import bandits as bandits
    from rewardrate import environments as environments
    from rewardrate import policies as policies
    from rewardrate import pretraining as pretraining
    from rewardrate import rates as rates
    from rewardrate import reports as reports
    from rewardrate import runlog as runlog
    from rewardrate import sandbox as sandbox
    from rewardrate import scale as scale
    from rewardrate import theory as theory
    from rewardrate import timed as timed
    from rewardrate import training as training
    from rewardrate.errors import InputError as InputError
    from rewardrate.rates.relative import relative_reward as relative_reward
    from rewardrate.runlog.frames import load_run as load_run
    from rewardrate.training.session import train as train

__version__ = "0.1.0"
__all__ = ["InputError", "__version__", "load_run", "rates", "relative_reward", "runlog", "sandbox", "theory"]

# Name -> module that defines it (None: the module itself). Loaded on first use, so that `import rewardrate`
# and `rewardrate --help` cost no numpy. What needs an extra is not in __all__: `import *` works without any.
_LAZY = {
    "InputError": "rewardrate.errors",
    "load_run": "rewardrate.runlog.frames",
    "relative_reward": "rewardrate.rates.relative",
    "train": "rewardrate.training.session",
    "bandits": None,
    "environments": None,
    "policies": None,
    "pretraining": None,
    "rates": None,
    "reports": None,
    "runlog": None,
    "sandbox": None,
    "scale": None,
    "theory": None,
    "timed": None,
    "training": None,
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _LAZY[name] or f"{__name__}.{name}"
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        from rewardrate.errors import missing_extra

        raise missing_extra(f"{__name__}.{name}", error) or error from None
    value = module if _LAZY[name] is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY})
