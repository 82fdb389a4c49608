"""Algorithm 1 with a small model of the agent in place of a language model: what a price does to a run, in seconds.

The agent chooses one of K measured scripts and makes a mistake or not. It knows nothing of code, and learns two things:

    script    p_k   ~ exp(theta_k + copying * [k is the parent's script])
    valid     P(ok) = ceiling * sigma(b_k + parent_help * h),   h = 1 copying the parent, 1/2 otherwise, 0 without one
    learning  A     = (rewards - mean) / standard deviation over the batch
              theta_k += eta * script_speed * mean(A * ([a = k] - p_k))
              b_k     += eta * (mean(A * (ok - sigma)) + mean(A * (ok - sigma) * [a = k]) / 2)

With eta = 4 / learning_steps a valid share of one half grows by about 1 / (2 * learning_steps) a step. Between scripts
and learning stands what the product does (`BatchPricer`): price, relative rewards, bonus and buffer.
Shapes: G simulated runs, B rows of the batch (chains), K scripts, M budgets, S steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardrate.attempt import FLOOR_SECONDS
from rewardrate.checks import finite
from rewardrate.errors import InputError
from rewardrate.training.batch_pricer import NOTHING, BatchPricer
from rewardrate.training.recipe import ArmName, Recipe

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

SHARES = (0.25, 0.5, 1.0)
"Shares of T at which a run is looked at."
NEAR_END = np.linspace(0.8, 1.0, 21)
"A value at T is the mean over these shares of it, as in `reports.evaluation`."
MOST_STEPS = 5000
BATCHES = 100
"Batch rates that NIW draws in a simulation; a run draws 1,000. Fewer make the charged percentile noisier."


class SimulatedPrice(NamedTuple):
    """What a second costs in one arm."""

    name: str
    arm: ArmName
    scale: float = 1.0

    def recipe(self, recipe: Recipe) -> Recipe:
        """The same run at this price."""
        priced = recipe.with_arm(self.arm)
        return replace(priced, objective=replace(priced.objective, price_scale=self.scale))


NONE = SimulatedPrice("none", "vanilla")
RATE = SimulatedPrice("rate", "rpg")
HORIZON = SimulatedPrice("horizon", "horizon")
PRICES = (NONE, SimulatedPrice("rate x 0.25", "rpg", 0.25), SimulatedPrice("rate x 0.5", "rpg", 0.5), RATE, HORIZON)


@dataclass(frozen=True)
class Agents:
    """One agent for each of G runs: what it can write, and how it learns. Vectors have G entries."""

    reward: Array
    "G x K. A script without reward (no gain) runs to its end and is invalid."
    seconds: Array
    "G x K."
    start: Array
    "G x K. Probability of each script in the first step."
    reward_spread: Array
    "G x K. Standard deviation of the reward among attempts at one script."
    seconds_spread: Array
    "G x K. Standard deviation of log seconds among attempts at one script."
    valid_share: Array
    "Of the first step."
    ceiling: Array
    "The largest share of attempts without a mistake that learning can reach."
    learning_steps: Array
    script_speed: Array
    copying: Array
    parent_help: Array
    difficulty: Array
    "Rise of the log odds of a mistake with each unit of log seconds: slow scripts are often harder to write."
    no_program: Array
    "Share of mistakes that end at once (0.1 s). Others run for at least half of the script's seconds."

    @property
    def runs(self) -> int:
        """G."""
        return int(self.valid_share.size)

    def take(self, rows: Ints) -> Agents:
        """The agents of these rows."""
        return Agents(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class SimulatedRun:
    """What all runs of a comparison share."""

    recipe: Recipe
    budget: float
    "T: seconds of scripts per chain."
    limit_seconds: float

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("limit_seconds", self.limit_seconds)):
            finite(name, value, lambda number: number > 0, "be finite and positive")


@dataclass(frozen=True)
class Simulated:
    """What G runs came to."""

    value: Array
    "G x SHARES: the latest attempt's reward (an invalid one 0), mean over chains and over 0.8 to 1 of a share of T."
    steps: Ints
    "G. Steps begun before T."
    late: Array
    "G x 4, of the attempts that ended between 0.8 T and T: seconds an attempt, valid share, share of the most frequent"
    "script among the valid ones, number."
    by_step: Array
    "S x G x 3, means of a batch: valid, reward (an invalid attempt counts 0), seconds."


def simulate(
    agents: Agents,
    setting: SimulatedRun,
    price: SimulatedPrice,
    *,
    seed: int,
    steps: int | None = None,
    on_step: Callable[[float], None] | None = None,
) -> Simulated:
    """Run all agents at one price until their budgets are used, or for so many steps.

    Random numbers belong to seed, step, run and row, not to the price: prices are compared on the same draws.
    `on_step` gets the share of the budget that the slowest run has used.
    """
    runs = _Runs(agents, setting, price, seed)
    end = setting.budget * setting.recipe.batch
    for step in range(1, (steps or MOST_STEPS) + 1):
        active = np.ones(agents.runs, bool) if steps else runs.used.sum(axis=1) < end
        if not active.any():
            return runs.result()
        runs.step(step, active)
        if on_step is not None:
            on_step(min(1.0, float(runs.used.sum(axis=1).min()) / end))
    if steps is None:
        rule = f"a run at the price {price.name} needs more than {MOST_STEPS} steps"
        raise InputError("budget", setting.budget, rule, "plan for a smaller one")
    return runs.result()


class _Runs:
    """The state of G runs."""

    def __init__(self, agents: Agents, setting: SimulatedRun, price: SimulatedPrice, seed: int) -> None:
        recipe = price.recipe(setting.recipe)
        self.agents, self.setting, self.seed = agents, setting, seed
        self.overhead = recipe.overhead.seconds
        limit = setting.limit_seconds
        self.pricer = BatchPricer(recipe, agents.runs, deadline=setting.budget, limit_seconds=limit, batches=BATCHES)
        self.theta = np.log(np.maximum(agents.start, 1e-12))
        self.b = logits(agents)
        self.eta = 4.0 / agents.learning_steps
        shape = (agents.runs, recipe.batch)
        self.used = np.zeros(shape)
        self.marks = np.multiply.outer(np.array(SHARES) * setting.budget, NEAR_END).ravel()
        self.shown = np.zeros((self.marks.size, *shape))
        self.steps = np.zeros(agents.runs, dtype=np.int64)
        self.late = np.zeros((3, agents.runs))
        self.late_scripts = np.zeros_like(self.theta)
        self.by_step: list[Array] = []

    def step(self, step: int, active: Flags) -> None:
        """One batch for every run; one that is not active is left as it is."""
        rng = np.random.default_rng([self.seed, step])
        parent = self.pricer.parents()
        script, p = self._choose(parent, rng)
        sigma = _sigma(_of(self.b, script) + self._help(parent, script))
        ok = rng.random(script.shape) < sigma
        reward, seconds, valid = self._execute(script, ok, rng)
        learnt = self.pricer.price(script, reward, seconds, valid, active)
        self._learn(learnt, script, p, ok - sigma, active)
        self._record(script, reward, seconds, valid, active)

    def _choose(self, parent: Ints, rng: np.random.Generator) -> tuple[Ints, Array]:
        """The scripts (G x B) and the probabilities they were drawn with (G x B x K)."""
        shown = parent[:, :, None] == np.arange(self.theta.shape[1])
        logit = self.theta[:, None, :] + self.agents.copying[:, None, None] * shown
        weight = np.exp(logit - logit.max(axis=-1, keepdims=True))
        p = weight / weight.sum(axis=-1, keepdims=True)
        below = p.cumsum(axis=-1)[:, :, :-1] < rng.random((*parent.shape, 1))
        return below.sum(axis=-1), p

    def _help(self, parent: Ints, script: Ints) -> Array:
        share = np.where(parent == NOTHING, 0.0, np.where(parent == script, 1.0, 0.5))
        return self.agents.parent_help[:, None] * share

    def _execute(self, script: Ints, ok: Flags, rng: np.random.Generator) -> tuple[Array, Array, Flags]:
        """Reward (0 where invalid), seconds with their overhead, valid."""
        agents, shape, limit = self.agents, script.shape, self.setting.limit_seconds
        full = _of(agents.seconds, script) * np.exp(_of(agents.seconds_spread, script) * rng.standard_normal(shape))
        mean = _of(agents.reward, script)
        reward = np.maximum(0.0, mean + _of(agents.reward_spread, script) * rng.standard_normal(shape))
        ok = ok & (rng.random(shape) < agents.ceiling[:, None])
        at_once = rng.random(shape) < agents.no_program[:, None]
        failed = np.where(at_once, FLOOR_SECONDS, full * rng.uniform(0.5, 1.0, shape))
        seconds = np.clip(np.where(ok, full, failed), FLOOR_SECONDS, limit)
        valid = ok & (full < limit) & (mean > 0) & (reward > 0)
        return np.where(valid, reward, 0.0), seconds + self.overhead, valid

    def _learn(self, learnt: Array, script: Ints, p: Array, surprise: Array, active: Flags) -> None:
        """One step of policy gradient. `surprise`: ok - sigma."""
        spread = learnt.std(axis=1, keepdims=True)
        known = spread > 1e-9 * (1.0 + np.abs(learnt).max(axis=1, keepdims=True))
        advantage = np.where(known, (learnt - learnt.mean(axis=1, keepdims=True)) / np.where(known, spread, 1.0), 0.0)
        chosen = script[:, :, None] == np.arange(p.shape[2])
        eta = np.where(active, self.eta, 0.0)[:, None]
        rise = np.einsum("gb,gbk->gk", advantage, chosen - p) / script.shape[1]
        own = np.einsum("gb,gbk->gk", advantage * surprise, chosen) / script.shape[1]
        self.theta += eta * self.agents.script_speed[:, None] * rise
        self.b += eta * (own.sum(axis=1, keepdims=True) + own / 2)

    def _record(self, script: Ints, reward: Array, seconds: Array, valid: Flags, active: Flags) -> None:
        spent = self.used + np.where(active[:, None], seconds, 0.0)
        budget = self.setting.budget
        ended = active[:, None] & (spent <= self.marks[:, None, None])
        self.shown = np.where(ended, reward, self.shown)
        late = active[:, None] & (spent > NEAR_END[0] * budget) & (spent <= budget)
        self.late += np.stack([(late * one).sum(axis=1) for one in (seconds, valid, np.ones_like(seconds))])
        chosen = script[:, :, None] == np.arange(self.theta.shape[1])
        self.late_scripts += (chosen & (late & valid)[:, :, None]).sum(axis=1)
        self.used, self.steps = spent, self.steps + active
        self.by_step.append(np.stack([valid.mean(axis=1), reward.mean(axis=1), seconds.mean(axis=1)], axis=1))

    def result(self) -> Simulated:
        """What it came to. Seconds and valid share are the last step's where no attempt ended between 0.8 T and T."""
        value = self.shown.mean(axis=2).reshape(len(SHARES), NEAR_END.size, -1).mean(axis=1).T
        seconds, valid, count = self.late
        last = self.by_step[-1]
        known = count > 0
        some = np.maximum(count, 1)
        top = self.late_scripts.max(axis=1) / np.maximum(valid, 1)
        late = [np.where(known, seconds / some, last[:, 2]), np.where(known, valid / some, last[:, 0]), top, count]
        return Simulated(value, self.steps, np.stack(late, axis=1), np.stack(self.by_step))


def logits(agents: Agents) -> Array:
    """G x K: b at the start. Slower scripts are harder, and the first step's valid share is the stated one.

    sum_k start_k * [reward_k > 0] * ceiling * sigma(b - difficulty * (log seconds_k - mean)) = valid_share
    """
    log_seconds = np.log(agents.seconds)
    mean = (agents.start * log_seconds).sum(axis=1, keepdims=True)
    easier = -agents.difficulty[:, None] * (log_seconds - mean)
    weight = agents.start * (agents.reward > 0) * agents.ceiling[:, None]
    low, high = np.full(agents.runs, -12.0), np.full(agents.runs, 12.0)
    for _ in range(40):
        middle = (low + high) / 2
        share = (weight * _sigma(middle[:, None] + easier)).sum(axis=1)
        low, high = (
            np.where(share < agents.valid_share, middle, low),
            np.where(share < agents.valid_share, high, middle),
        )
    found: Array = high[:, None] + easier
    return found


def _of(table: Array, script: Ints) -> Array:
    """G x B from a table G x K."""
    return np.take_along_axis(table, script, axis=1)


def _sigma(logit: Array) -> Array:
    found: Array = 1.0 / (1.0 + np.exp(-np.clip(logit, -500, 500)))
    return found
