"""Language models that propose and learn: sampling and PPO."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewardrate.policies.endpoint import EndpointPolicy as EndpointPolicy
    from rewardrate.policies.language_model import LanguageModelPolicy as LanguageModelPolicy
    from rewardrate.policies.learner import Learner as Learner
    from rewardrate.policies.learner import LearnerSettings as LearnerSettings
    from rewardrate.policies.models import load_model as load_model
    from rewardrate.policies.proposal import Message as Message
    from rewardrate.policies.proposal import Policy as Policy
    from rewardrate.policies.proposal import Proposal as Proposal
    from rewardrate.policies.sampling import Sampler as Sampler
    from rewardrate.policies.sampling import SamplingSettings as SamplingSettings

# Name -> module. Loaded on first use: the protocol and the endpoint cost no torch.
_LAZY = {
    "EndpointPolicy": "endpoint",
    "LanguageModelPolicy": "language_model",
    "Learner": "learner",
    "LearnerSettings": "learner",
    "Message": "proposal",
    "Policy": "proposal",
    "Proposal": "proposal",
    "Sampler": "sampling",
    "SamplingSettings": "sampling",
    "load_model": "models",
}
__all__ = [
    "EndpointPolicy",
    "LanguageModelPolicy",
    "Learner",
    "LearnerSettings",
    "Message",
    "Policy",
    "Proposal",
    "Sampler",
    "SamplingSettings",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
