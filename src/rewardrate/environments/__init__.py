"""What can be attempted: a proposal in, (valid, reward, seconds, message) out."""

from rewardrate.attempt import Outcome, Parent
from rewardrate.environments.environment import (
    Environment,
    EnvironmentSettings,
    KnownSolution,
    RunSetup,
    measured,
    unrun,
)
from rewardrate.environments.sandboxed import SandboxedEnvironment

__all__ = ["Environment", "EnvironmentSettings", "KnownSolution", "Outcome", "Parent", "RunSetup"]
__all__ += ["SandboxedEnvironment", "measured", "unrun"]
