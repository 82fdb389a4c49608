"""What `Pricer` does between execution and learning, for many simulated runs at once.

The estimator of the rate with its chains, and the price, are the product's own objects, one for each run. Relative
rewards, bonus and buffer are written for arrays; tests/training/test_batch_pricer.py holds them equal to `Pricer`.
Shapes: G runs, B rows of the batch (chains), C solutions in the buffer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rewardrate import rates
from rewardrate.training.recipe import Recipe

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOTHING = -1  # the parent of an attempt at the base prompt


class SecondPrice:
    """What one second costs in one run: the recipe's estimator and price."""

    def __init__(self, recipe: Recipe, deadline: float) -> None:
        self.deadline = deadline
        self.free = recipe.arm == "vanilla"
        self.chains = rates.Accumulators(recipe.batch, window=recipe.window, invalid=recipe.invalid_in_fit)
        self.estimator = recipe.make_estimator()
        budget = replace(recipe.budget, script_seconds=deadline * recipe.batch)
        self.price = replace(recipe, budget=budget).make_price()

    def update(self, reward: Array, seconds: Array, valid: Flags) -> float:
        """The price after one step, before the objective takes its share."""
        if self.free:
            return 0.0
        rate = self.chains.update(reward, seconds, valid).fit(self.estimator).rate
        return self.price.update(reward, seconds, rate=rate, chains=reward.size, deadline=self.deadline)


class Buffers:
    """The solution buffers of G runs, every copy kept (`SolutionBuffer(copies="all")`).

    Solutions stand in the order of their age, newest first and within a step by attempt number, so that a stable sort
    by key breaks ties as `SolutionBuffer` does.
    """

    def __init__(self, runs: int, capacity: int) -> None:
        self.capacity = capacity
        self.script: Ints = np.full((runs, 0), NOTHING)
        self.reward = np.zeros((runs, 0))
        self.seconds = np.zeros((runs, 0))
        self.ranked: Ints = np.full((runs, 0), NOTHING)
        "Scripts, best key first; NOTHING behind the last."

    @property
    def best_reward(self) -> Array:
        """G: the best retained reward; minus infinity where there is none."""
        known = np.where(self.script == NOTHING, -np.inf, self.reward)
        best: Array = np.max(known, axis=1, initial=-np.inf)
        return best

    def absorb(
        self, script: Ints, reward: Array, seconds: Array, valid: Flags, price: Array, active: Flags | None = None
    ) -> None:
        """Add a step's valid attempts, rank all at each run's price (reward - price * seconds), trim to capacity.

        Full buffers of runs that are not active are left alone, to save time.
        """
        full = self.script.shape[1] == self.capacity
        rows = slice(None) if active is None or not full else np.flatnonzero(active)
        pairs = ((np.where(valid, script, NOTHING), self.script), (reward, self.reward), (seconds, self.seconds))
        columns = [np.concatenate([new[rows], old[rows]], axis=1) for new, old in pairs]
        worse = np.where(columns[0] == NOTHING, np.inf, price[rows, None] * columns[2] - columns[1])
        order = np.argsort(worse, axis=1, kind="stable")[:, : self.capacity]
        ranked = np.take_along_axis(columns[0], order, 1)
        if columns[0].shape[1] > self.capacity:
            kept = np.sort(order, axis=1)
            columns = [np.take_along_axis(column, kept, 1) for column in columns]
        if full:
            self.script[rows], self.reward[rows], self.seconds[rows] = columns
            self.ranked[rows] = ranked
        else:
            (self.script, self.reward, self.seconds), self.ranked = columns, ranked

    def select(self, count: int) -> Ints:
        """G x count: the scripts of the best solutions, from the top again when there are fewer; NOTHING if none."""
        if not self.ranked.shape[1]:
            return np.full((self.ranked.shape[0], count), NOTHING)
        held = np.maximum((self.ranked != NOTHING).sum(axis=1, keepdims=True), 1)
        return np.take_along_axis(self.ranked, np.arange(count)[None, :] % held, 1)


class BatchPricer:
    """Rate or horizon, relative rewards, bonus and buffer of G runs.

    `batches`: what an estimator that draws may draw at an update; None: as many as the recipe says.
    """

    def __init__(
        self, recipe: Recipe, runs: int, *, deadline: float, limit_seconds: float, batches: int | None = None
    ) -> None:
        if batches is not None:
            recipe = replace(recipe, estimator=recipe.estimator.with_draws(batches))
        self.recipe, self.objective = recipe, recipe.objective
        self.limit_seconds = limit_seconds + recipe.overhead.seconds
        self.prices = [SecondPrice(replace(recipe, seed=run), deadline) for run in range(runs)]
        self.buffers = Buffers(runs, recipe.buffer_batches * recipe.batch)
        self.price_G = np.zeros(runs)

    def parents(self) -> Ints:
        """G x B: the script that each chain is shown."""
        group = self.recipe.attempts_per_prompt
        return np.repeat(self.buffers.select(self.recipe.batch // group), group, axis=1)

    def price(self, script: Ints, reward: Array, seconds: Array, valid: Flags, active: Flags) -> Array:
        """G x B: what the learner gets for a step's attempts (reward 0 where invalid); the buffer takes them in.

        Runs that are not active keep their price.
        """
        for run in np.flatnonzero(active):
            found = self.prices[run].update(reward[run], seconds[run], valid[run])
            self.price_G[run] = self.objective.price(found)
        relative = self._relative(reward, seconds, valid)
        improves = valid & (reward > self.buffers.best_reward[:, None])
        in_buffer = self.price_G if self.objective.price_in != "reward" else np.zeros_like(self.price_G)
        self.buffers.absorb(script, reward, seconds, valid, price=in_buffer, active=active)
        return relative + np.where(improves, self.objective.bonus, 0.0)

    def _relative(self, reward: Array, seconds: Array, valid: Flags) -> Array:
        """Equation (mle:arms): reward - price * seconds, or penalty - price * limit where invalid."""
        price = (self.price_G if self.objective.price_in != "buffer" else np.zeros_like(self.price_G))[:, None]
        measured = self.objective.invalid_charge == "measured"
        failed = seconds if measured else np.maximum(self.limit_seconds, seconds)
        return np.where(valid, reward - price * seconds, self.objective.penalty - price * failed)
