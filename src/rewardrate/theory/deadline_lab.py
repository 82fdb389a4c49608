"""Score lost at a deadline by each price of a second, against the exact optimum, on random problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from rewardrate.config import AtLeast
from rewardrate.rates.horizon import Horizon
from rewardrate.theory.deadline_problems import FAMILIES, DeadlineProblem, draw_problem
from rewardrate.theory.deadline_rules import PRICES, DeadlineForecast, greedy, greedy_in_values
from rewardrate.theory.tables import Array

BATCH = 16  # attempts of a step, from which rates.Horizon is estimated
DRAWS = 2000  # of the bootstrap
ESTIMATED = "horizon, estimated"
IN_VALUES = "exact values, exact dV/dleft"
RULES = (*PRICES, IN_VALUES, ESTIMATED)


@dataclass(frozen=True)
class DeadlineConfig:
    """Settings of `rewardrate theory deadline`."""

    problems: Annotated[int, AtLeast(2)] = 250
    "Random problems of each family."
    seed: Annotated[int, AtLeast(0)] = 2026
    "Seed of the problems. 11 was used to develop the prices, 2026 to judge them."
    plays: Annotated[int, AtLeast(1)] = 4
    "Runs of each problem with the price that is estimated from batches."


class LostScore(NamedTuple):
    """A mean over problems and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class FamilyResult:
    """One family: the optimum's mean score, and by rule what is lost of it and what is lost less vanilla's loss."""

    family: str
    problems: int
    optimum: float
    loss: dict[str, LostScore]
    against_vanilla: dict[str, LostScore]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        rows = {
            name: {"loss": self.loss[name]._asdict(), "less_vanilla": self.against_vanilla[name]._asdict()}
            for name in self.loss
        }
        return {"family": self.family, "problems": self.problems, "optimum": self.optimum, "rules": rows}


def judge(config: DeadlineConfig, progress: Callable[[int], None] = lambda done: None) -> list[FamilyResult]:
    """One FamilyResult per family. Problem i of a family depends on the seed and i alone."""
    results, done = [], 0
    for family in FAMILIES:
        optimum, losses = [], []
        for number in range(config.problems):
            rng = np.random.default_rng([config.seed, FAMILIES.index(family), number])
            best, lost = losses_of(draw_problem(rng, family), config.plays, rng)
            optimum.append(best)
            losses.append(lost)
            done += 1
            progress(done)
        by_rule = {name: np.array([lost[name] for lost in losses]) for name in losses[0]}
        results.append(
            FamilyResult(
                family=family,
                problems=config.problems,
                optimum=float(np.mean(optimum)),
                loss={name: bootstrap(lost) for name, lost in by_rule.items()},
                against_vanilla={name: bootstrap(lost - by_rule["vanilla"]) for name, lost in by_rule.items()},
            )
        )
    return results


def losses_of(problem: DeadlineProblem, plays: int, rng: np.random.Generator) -> tuple[float, dict[str, float]]:
    """The optimum's score, and what each rule loses of it."""
    value_TS = problem.horizon.optimal(problem.budget).value
    best, forecast = float(value_TS[-1, problem.start]), DeadlineForecast.of(problem)
    actions = {name: greedy(problem, price(problem, forecast, value_TS)) for name, price in PRICES.items()}
    actions[IN_VALUES] = greedy_in_values(problem, value_TS)
    lost = {name: best - float(problem.horizon.value(one)[-1, problem.start]) for name, one in actions.items()}
    if problem.family != "commit":  # there the one choice is made before anything can be estimated
        lost[ESTIMATED] = best - float(np.mean([play(problem, Horizon(), rng) for _ in range(plays)]))
    return best, lost


def play(problem: DeadlineProblem, price: Horizon, rng: np.random.Generator) -> float:
    """The score at the deadline of one run at a price that sees only the rewards and seconds of batches.

    A step is BATCH attempts of one kind, side by side. The first is vanilla's: nothing is known before it.
    """
    horizon, state, left, charged = problem.horizon, problem.start, problem.budget, 0.0
    while True:
        action = int((problem.reward[state] - charged * horizon.seconds[state]).argmax())
        seconds = int(horizon.seconds[state, action])
        if seconds > left:
            return float(horizon.final[state])
        left -= seconds
        valid = rng.random(BATCH) < problem.valid[state]
        reward = np.where(valid, problem.reward[state, action] / problem.valid[state], 0.0)
        charged = price.update(reward, np.full(BATCH, float(seconds)), chains=BATCH, deadline=float(problem.budget))
        success = rng.random() < horizon.chance[state, action]
        state = int((horizon.success if success else horizon.failure)[state, action])


def bootstrap(values: Array) -> LostScore:
    """The mean and its percentile interval; problems are drawn with replacement, the same for every rule."""
    size = len(values)
    drawn = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), size=DRAWS) @ values / size
    low, high = np.quantile(drawn, [0.025, 0.975])
    return LostScore(float(values.mean()), float(low), float(high))
