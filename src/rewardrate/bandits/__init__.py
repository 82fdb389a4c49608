"""The laboratory: worlds, agents, engine, study."""

from rewardrate.bandits.agents import Agent
from rewardrate.bandits.agents.cucb import CUCB
from rewardrate.bandits.agents.npg import NPG
from rewardrate.bandits.agents.spg import SPG
from rewardrate.bandits.engine import Traces, simulate, simulate_many
from rewardrate.bandits.studies import StudyConfig, study
from rewardrate.bandits.world import World

__all__ = ["CUCB", "NPG", "SPG", "Agent", "StudyConfig", "Traces", "World", "simulate", "simulate_many", "study"]
