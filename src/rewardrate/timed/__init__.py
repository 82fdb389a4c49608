"""Gymnasium environments whose actions take time, and the wrapper that prices it."""

from rewardrate.errors import MissingExtra

try:
    import gymnasium
except ImportError:
    raise MissingExtra("rewardrate.timed", "gymnasium", "gym") from None

from rewardrate.timed.convention import TimedEnv, WallClock, check_timed
from rewardrate.timed.foraging import Foraging
from rewardrate.timed.maintenance import MachineMaintenance
from rewardrate.timed.options import OptionsWrapper
from rewardrate.timed.price import Price
from rewardrate.timed.queue_control import QueueControl
from rewardrate.timed.reference import ReferenceEnv
from rewardrate.timed.vector import RewardRateVectorWrapper
from rewardrate.timed.wrapper import RewardRateWrapper

REFERENCE: dict[str, type[ReferenceEnv]] = {
    "rewardrate/QueueControl-v0": QueueControl,
    "rewardrate/MachineMaintenance-v0": MachineMaintenance,
    "rewardrate/Foraging-v0": Foraging,
}

for _name, _kind in REFERENCE.items():
    if _name not in gymnasium.registry:
        gymnasium.register(_name, f"{_kind.__module__}:{_kind.__name__}")

__all__ = [
    "REFERENCE",
    "Foraging",
    "MachineMaintenance",
    "OptionsWrapper",
    "Price",
    "QueueControl",
    "ReferenceEnv",
    "RewardRateVectorWrapper",
    "RewardRateWrapper",
    "TimedEnv",
    "WallClock",
    "check_timed",
]
