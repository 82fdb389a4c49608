"""Algorithms that train a policy: advantages and losses, one file each. An installed package can add one."""

from __future__ import annotations

from rewardrate.policies.algorithms.algorithm import Algorithm as Algorithm
from rewardrate.policies.algorithms.algorithm import Batch as Batch
from rewardrate.policies.algorithms.algorithm import Loss as Loss
from rewardrate.policies.algorithms.algorithm import group_statistics as group_statistics
from rewardrate.policies.algorithms.algorithm import on_tokens as on_tokens
from rewardrate.policies.algorithms.ppo import PPO as PPO

GROUP = "rewardrate.algorithms"  # of entry points: kind -> frozen dataclass, a subclass of Algorithm
DEFAULT = PPO

__all__ = ["DEFAULT", "GROUP", "PPO", "Algorithm", "Batch", "Loss", "group_statistics", "on_tokens"]
