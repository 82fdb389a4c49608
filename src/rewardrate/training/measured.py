"""What is measured before a plan: a task's reference scripts, or the attempts of a pilot run.

Shapes: N attempts, K scripts, S steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate import config
from rewardrate.attempt import FLOOR_SECONDS
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.training.recipe import Recipe
from rewardrate.training.simulation import SimulatedPrice, SimulatedRun

Array = NDArray[np.float64]

REWARD_CELLS = 8
"A pilot's valid attempts are one script where they fall into one cell: an eighth of the range of rewards,"
SECONDS_CELL = 2.0
"and seconds within a factor of two."
FEWEST_VALID = 10
"A pilot with fewer valid attempts does not say what its agent can write."


@dataclass(frozen=True)
class Scripts:
    """K scripts with what was measured of them."""

    reward: Array
    seconds: Array
    reward_spread: Array
    "Standard deviation of the reward among attempts at one script."
    seconds_spread: Array
    "The same of log seconds."
    seen: Array
    "How often an agent wrote it at the start; 1 each where that is not known."


def reference_scripts(recipe: Recipe) -> Scripts:
    """The measured scripts of the recipe's task, with the reward and the seconds that its environment gives them."""
    reward, seconds = np.array(recipe.environment.planned_scripts(recipe.task)).T
    ones = np.ones(reward.size)
    spread = 0.03 * float(reward.max())
    return Scripts(reward, seconds, spread * ones, 0.15 * ones, ones)


@dataclass(frozen=True)
class Attempts:
    """N attempts of one run; those of the sandbox's failures are left out."""

    step: NDArray[np.int64]
    valid: NDArray[np.bool_]
    reward: Array
    "0 where invalid."
    seconds: Array

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]]) -> Attempts:
        """From columns of the run log: step, valid, reward, seconds, status."""
        kept = [place for place, status in enumerate(columns["status"]) if status != "sandbox-failure"]
        valid = np.array([bool(columns["valid"][i]) for i in kept])
        reward = np.array([float(columns["reward"][i] or 0.0) for i in kept])
        return cls(
            step=np.array([int(columns["step"][i]) for i in kept], dtype=np.int64),
            valid=valid,
            reward=np.where(valid, reward, 0.0),
            seconds=np.array([max(FLOOR_SECONDS, float(columns["seconds"][i])) for i in kept]),
        )

    @property
    def early(self) -> NDArray[np.bool_]:
        """The attempts of the first third of the steps: what the agent wrote before it learnt much."""
        steps = np.unique(self.step)
        found: NDArray[np.bool_] = self.step <= steps[max(0, -(-steps.size // 3) - 1)]
        return found

    @property
    def by_step(self) -> Array:
        """S x 3, means of each step: valid, reward, seconds."""
        _, place = np.unique(self.step, return_inverse=True)
        count = np.bincount(place)
        columns = (self.valid.astype(float), self.reward, self.seconds)
        return np.stack([np.bincount(place, weights=one) / count for one in columns], axis=1)

    def scripts(self) -> Scripts:
        """The valid attempts by cells of reward and seconds, one script each."""
        if int(self.valid.sum()) < FEWEST_VALID:
            rule = f"a plan needs at least {FEWEST_VALID} valid attempts to know what the agent can write"
            raise InputError("run", f"{int(self.valid.sum())} valid attempts", rule, "give the task's name instead")
        reward, seconds = self.reward[self.valid], self.seconds[self.valid]
        early = self.early[self.valid]
        width = max(float(np.ptp(reward)) / REWARD_CELLS, 1e-9)
        cells = np.stack([(reward - reward.min()) // width, np.log(seconds) // np.log(SECONDS_CELL)], axis=1)
        _, place = np.unique(cells, axis=0, return_inverse=True)
        groups = [np.flatnonzero(place.ravel() == cell) for cell in range(int(place.max()) + 1)]
        log_seconds = np.log(seconds)

        def each(what: Any) -> Array:
            return np.array([float(what(group)) for group in groups])

        return Scripts(
            reward=each(lambda group: reward[group].mean()),
            seconds=each(lambda group: np.exp(log_seconds[group].mean())),
            reward_spread=each(lambda group: reward[group].std()),
            seconds_spread=each(lambda group: log_seconds[group].std()),
            seen=each(lambda group: early[group].sum() + 0.5),
        )

    @property
    def ran(self) -> NDArray[np.bool_]:
        """The attempts that did not end at once."""
        found: NDArray[np.bool_] = self.seconds > 1.5 * FLOOR_SECONDS
        return found

    def no_program(self) -> tuple[int, int]:
        """(invalid attempts that ended at once, invalid attempts), early."""
        failed = self.early & ~self.valid
        return int((failed & ~self.ran).sum()), int(failed.sum())

    def difficulty(self) -> tuple[float, float]:
        """(estimate, standard error): rise of the log odds of a mistake with log seconds, early attempts that ran.

        A failed script has run for a part of its seconds, so the estimate is somewhat too small.
        Logistic regression by Newton's method with a weak normal prior (standard deviation 2), so that it always ends.
        """
        kept = self.early & self.ran
        x, y = np.log(self.seconds[kept]), self.valid[kept].astype(float)
        design = np.stack([np.ones_like(x), x - x.mean()], axis=1)
        prior = np.diag([0.0, 0.25]) + 1e-6 * np.eye(2)
        w = np.zeros(2)
        for _ in range(30):
            p = 1.0 / (1.0 + np.exp(-np.clip(design @ w, -30, 30)))
            curvature = (design * (p * (1 - p))[:, None]).T @ design + prior
            w = w + np.linalg.solve(curvature, design.T @ (y - p) - prior @ w)
        return -float(w[1]), float(np.sqrt(np.linalg.inv(curvature)[1, 1]))


@dataclass(frozen=True)
class Pilot:
    """A run that was made before: its recipe and what came of it."""

    recipe: Recipe
    by_step: Array
    "S x 3: valid, reward (an invalid attempt counts 0), seconds."
    attempts: Attempts | None = None
    "Where single attempts are known."

    @property
    def first(self) -> tuple[int, int]:
        """(valid attempts, attempts) of the first step."""
        return round(float(self.by_step[0, 0]) * self.recipe.batch), self.recipe.batch

    @property
    def price(self) -> SimulatedPrice:
        """What its seconds cost."""
        return SimulatedPrice("pilot", self.recipe.arm, self.recipe.objective.price_scale)

    @property
    def setting(self) -> SimulatedRun:
        """What it was run with; without a stated budget, T is what it used."""
        return SimulatedRun(
            self.recipe, budget_of(self.recipe) or float(self.by_step[:, 2].sum()), limit_of(self.recipe)
        )


def budget_of(recipe: Recipe) -> float | None:
    """T: seconds of scripts per chain; None where the recipe states none."""
    return None if recipe.budget.script_seconds is None else recipe.budget.script_seconds / recipe.batch


def limit_of(recipe: Recipe) -> float:
    """The time after which an attempt is stopped."""
    return recipe.environment.planned_limit(recipe.task)


def read_pilot(folder: Path) -> Pilot:
    """A run folder as a pilot. InputError for one without steps, or of a kind that plans are not made for."""
    with RunLog.open(folder, read_only=True) as log:
        recipe = config.build(Recipe, config.read_toml(folder / "config.toml"))
        columns = log.table("step", "valid", "reward", "seconds", "status")
    limit_of(recipe)  # of a kind that plans are made for
    attempts = Attempts.of(columns)
    if not attempts.step.size:
        raise InputError("run", str(folder), "it has no finished step", "give the task's name instead")
    return Pilot(recipe, attempts.by_step, attempts)
