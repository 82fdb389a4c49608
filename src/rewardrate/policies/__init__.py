"""Language models that propose and learn: sampling and policy gradients."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewardrate.errors import MissingExtra

if TYPE_CHECKING:
    from rewardrate.attempt import Message as Message
    from rewardrate.attempt import Proposal as Proposal
    from rewardrate.policies.endpoint import EndpointPolicy as EndpointPolicy
    from rewardrate.policies.language_model import LanguageModelPolicy as LanguageModelPolicy
    from rewardrate.policies.learner import Learner as Learner
    from rewardrate.policies.models import load_model as load_model
    from rewardrate.policies.policy import Policy as Policy
    from rewardrate.policies.policy import PolicySettings as PolicySettings
    from rewardrate.policies.sampling import Sampler as Sampler
    from rewardrate.policies.settings import LearnerSettings as LearnerSettings
    from rewardrate.policies.settings import SamplingSettings as SamplingSettings

# Name -> module. Loaded on first use: the protocol, the settings and the endpoint cost no torch.
_LAZY = {
    "EndpointPolicy": "rewardrate.policies.endpoint",
    "LanguageModelPolicy": "rewardrate.policies.language_model",
    "Learner": "rewardrate.policies.learner",
    "LearnerSettings": "rewardrate.policies.settings",
    "Message": "rewardrate.attempt",
    "Policy": "rewardrate.policies.policy",
    "PolicySettings": "rewardrate.policies.policy",
    "Proposal": "rewardrate.attempt",
    "Sampler": "rewardrate.policies.sampling",
    "SamplingSettings": "rewardrate.policies.settings",
    "load_model": "rewardrate.policies.models",
}
__all__ = [
    "EndpointPolicy",
    "LanguageModelPolicy",
    "Learner",
    "LearnerSettings",
    "Message",
    "Policy",
    "PolicySettings",
    "Proposal",
    "Sampler",
    "SamplingSettings",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_LAZY[name])
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise MissingExtra("a language model in this process", error.name, "agent") from error
    return getattr(module, name)
