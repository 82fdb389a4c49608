"""Algorithm 1: objective, solution buffer, loop, resume."""

from rewardrate.training.buffer import Solution, SolutionBuffer
from rewardrate.training.objective import Objective

__all__ = ["Objective", "Solution", "SolutionBuffer"]
