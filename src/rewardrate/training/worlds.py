"""What a recipe attempts: a machine-learning task or a race, ready to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rewardrate.attempt import Outcome
from rewardrate.environments.mle.environment import MachineLearning, Settings
from rewardrate.environments.mle.folder import BENCH, load
from rewardrate.environments.mle.preparation import prepare
from rewardrate.environments.speedrun import data, race, seeds
from rewardrate.environments.speedrun.environment import RaceSettings, Speedrun
from rewardrate.environments.speedrun.rewards import RaceRewards
from rewardrate.environments.speedrun.seeds import Seed
from rewardrate.errors import InputError
from rewardrate.policies.policy import Policy
from rewardrate.sandbox import Executor
from rewardrate.training.buffer import Solution
from rewardrate.training.objective import Objective
from rewardrate.training.race import RaceObjective

if TYPE_CHECKING:
    from rewardrate.training.recipe import Recipe

SEEDS = "seeds"  # of a run folder: what its buffer began with
BASE = "baseline.py"  # of a run folder: the race's own script, which proposals without a parent change
PAID = "paid-replies.jsonl"  # of a run folder: of implementer and judge, for the step under way


class Attempted(Protocol):
    """An environment that a recipe can name: it also says a last word on the best attempt."""

    def last_word(self, code: str) -> Outcome | None:
        """The run's best script, judged once more; None where there is nothing to add."""


class TaskWorld:
    """A machine-learning task."""

    def __init__(self, recipe: Recipe, settings: Settings) -> None:
        self.recipe, self.settings = recipe, settings
        self.task = load(recipe.task, leaderboards=settings.leaderboards)
        if not recipe.task.startswith(BENCH):
            prepare(self.task)

    def facts(self) -> Mapping[str, str]:
        """What the record says of it."""
        return {"metric": self.task.metric, "direction": self.task.direction}

    def environment(self, executor: Executor, policy: Policy) -> MachineLearning:
        """The task, with the policy's own count of tokens for its prompts."""
        return MachineLearning(self.task, executor, self.settings, policy.count)

    def objective(self) -> Objective:
        """The recipe's."""
        return self.recipe.objective

    def seeds(self, folder: Path) -> list[Solution]:
        """None: the first prompts ask for a first script."""
        return []


class RaceWorld:
    """A race with its seeds."""

    def __init__(self, recipe: Recipe, settings: RaceSettings) -> None:
        self.recipe, self.settings = recipe, settings
        self.race = race.load(recipe.task)
        self._made: Speedrun | None = None
        if recipe.sandbox.clock != "wall":
            raise InputError("sandbox.clock", recipe.sandbox.clock, "a race is run against the wall clock", "wall")
        if self.race.text:
            data.make(self.race)
        data.require(self.race)

    def facts(self) -> Mapping[str, str]:
        """What the record says of it; reports of a race need its target and its cap."""
        rules = self.race
        return {
            "metric": "validation loss",
            "direction": "minimize",
            "race": rules.name,
            "split": data.split_name(rules),
            "target_loss": f"{rules.target_loss:g}",
            "credited_loss": f"{rules.credited_loss:g}",
            "cap_seconds": f"{rules.cap_seconds:g}",
        }

    def environment(self, executor: Executor, policy: Policy) -> Speedrun:
        """The race, with the policy's own count of tokens for its prompts."""
        self._made = Speedrun(self.race, executor, self.settings, policy.count)
        return self._made

    def objective(self) -> RaceObjective:
        """The recipe's arm with the race's own rewards."""
        return RaceObjective(**asdict(self.recipe.objective), race=self._rewards())

    def seeds(self, folder: Path) -> list[Solution]:
        """The seeds as solutions, valid ones alone. They are kept in the run's folder: a run goes on with its own.

        From here on the race knows the run's folder, and keeps what it pays for there too.
        """
        if self._made is not None:
            self._made.keep_replies(folder / PAID)
        kept = folder / SEEDS
        if not kept.is_dir():
            known = self._known_seeds()
            folder.mkdir(parents=True, exist_ok=True)
            (folder / BASE).write_text(self.race.baseline, encoding="utf-8")
            seeds.write(kept, known)
        objective = self.objective()
        found = [(seed, seed.outcome(objective.rewards_of)) for seed in seeds.read(kept)]
        valid = [(seed, outcome) for seed, outcome in found if outcome.valid]
        return [
            Solution(
                -number,
                seed.code,
                outcome.message,
                outcome.reward,
                outcome.seconds,
                0,
                outcome.reward,
                objective.worth(outcome),
                seed=seed.name,
            )
            for number, (seed, outcome) in enumerate(valid, start=1)
        ]

    def _known_seeds(self) -> list[Seed]:
        """The seeds that the recipe names, or the race's own. Those of another race were timed at another size."""
        if self.settings.seeds:
            found = seeds.read(Path(self.settings.seeds), self.race)
            if not any(seed.record.valid for seed in found):
                rule = f"of the {len(found)} seeds (NAME/train_gpt.py or NAME/edits.txt) there none has a valid record"
                remedy = f"rewardrate speedrun rescore {self.race.name} --out DIR writes them to DIR/records"
                raise InputError("environment.seeds", self.settings.seeds, rule, remedy)
        else:
            own = self.race.folder.resolve() in self.race.seeds.parents
            shared = seeds.read(self.race.seeds, self.race) if own else []
            found = [replace(seed, code=self.race.with_constants(seed.code)) for seed in shared]
        return [seed for seed in found if seed.record.valid]

    def _rewards(self) -> RaceRewards:
        rules = self.race
        return RaceRewards(rules.target_loss, rules.credited_margin, rules.cap_seconds, self.settings.rewards)


World = TaskWorld | RaceWorld


def world(recipe: Recipe) -> World:
    """What the recipe attempts, its data prepared. Raises InputError for one that cannot be had."""
    settings = recipe.environment
    return RaceWorld(recipe, settings) if isinstance(settings, RaceSettings) else TaskWorld(recipe, settings)
