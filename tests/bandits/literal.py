"""The study's equations in plain NumPy, read straight from the paper: the reference and the benchmark's baseline.

Nothing here comes from the package but the world's tables and, where a test wants the very same random numbers,
its counter. Paper, appendix "Bandit Experiments".
"""

from __future__ import annotations

import itertools
import math

import numpy as np

SKIP = (0.0, 0.35)


class Fresh:
    """Random numbers of its own, from numpy."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def orders(self, contexts, arms):
        return self.rng.permutation(contexts), self.rng.permutation(arms)

    def context(self, t, contexts):
        return int(self.rng.integers(contexts))

    def noise(self, t):
        return self.rng.standard_normal(2)

    def chance(self, t):
        return self.rng.random()


class Same:
    """The numbers that the package's engine draws for this seed."""

    def __init__(self, seed):
        from rewardrate.bandits import counter

        self.counter = counter
        self.order, self.world, self.own = (np.uint64(counter.trial_key(seed, purpose)) for purpose in range(3))

    def orders(self, contexts, arms):
        context_of, arm_of = np.empty(contexts, np.int64), np.empty(arms, np.int64)
        self.counter.permute(self.order, 0, context_of)
        self.counter.permute(self.order, contexts, arm_of)
        return context_of, arm_of

    def context(self, t, contexts):
        return int(self.counter.uniform(self.world, 3 * t) * contexts)

    def noise(self, t):
        return self.counter.normal_pair(self.world, 3 * t + 1)

    def key(self, t):
        return np.uint64(self.counter.bits(self.own, t))

    def chance(self, t):
        return self.counter.uniform(self.key(t), 0)


class LiteralNIW:
    """Posterior, predictive and percentile with every pair drawn; constants as in the authors' code."""

    def __init__(self, rng, batches=1000, forgetting=0.3):
        self.rng, self.batches, self.forgetting = rng, batches, forgetting
        self.kappa, self.nu, self.mu, self.psi = 1e-3, 3.0, np.zeros(2), 1e-3 * np.eye(2)

    def predictive(self, reward, seconds):
        z = np.column_stack([reward, np.log(seconds)])
        n, mean = len(z), z.mean(axis=0)
        scatter = (z - mean).T @ (z - mean)
        kappa, nu, psi = self.forgetting * self.kappa, max(self.forgetting * self.nu, 4.0), self.forgetting * self.psi
        shift = mean - self.mu
        self.psi = psi + scatter + kappa * n / (kappa + n) * np.outer(shift, shift)
        self.mu = (kappa * self.mu + n * mean) / (kappa + n)
        self.kappa, self.nu = kappa + n, nu + n
        dof = self.nu - 1
        return self.mu, self.psi * (self.kappa + 1) / (self.kappa * dof), dof, n

    def fit(self, reward, seconds, t):
        mean, scale, dof, n = self.predictive(reward, seconds)
        normal = self.rng.multivariate_normal(np.zeros(2), scale, size=(self.batches, n))
        chi_square = self.rng.chisquare(dof, size=(self.batches, n))
        pairs = mean + normal / np.sqrt(chi_square / dof)[..., None]
        rates = pairs[..., 0].mean(axis=1) / np.exp(pairs[..., 1]).mean(axis=1)
        return max(0.0, float(np.percentile(rates, 95)))


class Slots:
    """128 accumulators fed round-robin; a slot older than `age` restarts at its turn; a refit at every eighth step."""

    def __init__(self, age, estimator, slots=128):
        self.age, self.estimator = age, estimator
        self.reward, self.seconds, self.born, self.turn = np.zeros(slots), np.zeros(slots), np.zeros(slots), 0
        self.price = 0.0

    def feed(self, t, reward, seconds):
        i = self.turn
        if self.seconds[i] == 0 or t - self.born[i] > self.age:
            self.reward[i], self.seconds[i], self.born[i] = 0.0, 0.0, t
        self.reward[i] += reward
        self.seconds[i] += seconds
        self.turn = (i + 1) % len(self.reward)
        filled = self.seconds > 0
        if t % 8 == 0 and filled.sum() >= 2:
            self.price = self.estimator.fit(self.reward[filled], self.seconds[filled], t)


def pull(world, row, arm, noise):
    """Reward and seconds of a real arm."""
    correlation = {"E1": 0.0, "E2": 0.8, "E3": -0.8, "E4": 0.5}[world.family]
    mean_reward, mean_seconds = world.tables[0][row, arm], world.tables[1][row, arm]
    z1, xi = noise
    z2 = correlation * z1 + math.sqrt(1 - correlation**2) * xi
    if world.family == "E4":
        reward = math.exp(math.log(mean_reward) - 0.125 + 0.5 * z1)
        return reward, max(math.exp(math.log(mean_seconds) - 0.125 + 0.5 * z2), 0.5)
    return max(mean_reward + 0.2 * z1, 0.0), max(mean_seconds + 0.15 * mean_seconds * z2, 0.5)


class View:
    """A world's tables, read once (the package hands out copies)."""

    def __init__(self, world):
        self.family, self.arms, self.contexts, self.rate = world.family, world.arms, world.contexts, world.optimal_rate
        self.tables = world.mean_reward, world.mean_seconds


class SoftmaxAgent:
    """NPG-NIW and SPG-NIW, one logit per context and action."""

    def __init__(self, world, learning_rate, age, natural, estimator, source):
        shape = (world.contexts, world.arms + 1)
        self.theta, self.sum_reward, self.sum_seconds, self.count = (np.zeros(shape) for _ in range(4))
        self.learning_rate, self.natural, self.source = learning_rate, natural, source
        self.slots = Slots(age, estimator)

    def policy(self, x):
        e = np.exp(self.theta[x] - self.theta[x].max())
        return e / e.sum()

    def act(self, t, x):
        cumulative = np.cumsum(self.policy(x))
        return min(int(np.searchsorted(cumulative, self.source.chance(t), side="right")), len(cumulative) - 1)

    def learn(self, t, x, a, reward, seconds):
        if a == int(np.argmax(self.theta[x])):
            self.slots.feed(t, reward, seconds)
        pi = self.policy(x)
        self.sum_reward[x, a] += reward
        self.sum_seconds[x, a] += seconds
        self.count[x, a] += 1
        seen = self.count[x] > 0
        value = np.zeros(len(pi))
        value[seen] = (self.sum_reward[x] - self.slots.price * self.sum_seconds[x])[seen] / self.count[x][seen]
        advantage = value - pi @ value
        self.theta[x] += self.learning_rate * (advantage if self.natural else pi * advantage)


class UpperConfidence:
    """C-UCB with every policy enumerated at every step, or with sampled policies."""

    def __init__(self, world, c1, c2, policies=None, seed=0):
        self.shape = (world.contexts, world.arms + 1)
        self.c1, self.c2, self.policies = c1, c2, policies
        self.sum_reward, self.sum_seconds, self.count = (np.zeros(self.shape) for _ in range(3))
        self.rng = np.random.default_rng(seed)
        self.price, self.chosen = 0.0, []
        if policies is None:
            self.every = np.array(list(itertools.product(range(self.shape[1]), repeat=self.shape[0])))

    def act(self, t, x):
        if (self.count[x] == 0).any():
            return int(np.argmin(self.count[x]))
        contexts, actions = self.shape
        size = contexts * math.log(actions)
        log_t = math.log(max(t, 2))
        wide = log_t + (size + math.log1p(math.exp(-size))) / 2
        among = wide if self.policies is None else log_t + math.log(self.policies + 1) / 2
        table = self.every if self.policies is None else self.sample()
        rows = np.arange(contexts)
        reward, seconds, count = (
            grid[rows, table].sum(axis=1) for grid in (self.sum_reward, self.sum_seconds, self.count)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            index = np.where(count > 0, reward / seconds - np.sqrt(2 * self.c1 * among / count), -np.inf)
        self.price = max(float(index.max()), 1e-9)
        mean_reward, mean_seconds = self.sum_reward[x] / self.count[x], self.sum_seconds[x] / self.count[x]
        bonus = self.c2 * np.sqrt(wide / self.count[x])
        return int(np.argmax(mean_reward - self.price * mean_seconds + bonus))

    def sample(self):
        contexts = self.shape[0]
        table = np.zeros((self.policies, contexts), dtype=int)
        for x in range(contexts):
            visited = np.flatnonzero(self.count[x])
            if visited.size:
                table[:, x] = self.rng.choice(visited, size=self.policies)
        return table

    def learn(self, t, x, a, reward, seconds):
        self.sum_reward[x, a] += reward
        self.sum_seconds[x, a] += seconds
        self.count[x, a] += 1


def trial(world, agent, source, steps):
    """Regret at the end of one trial, and the actions it played."""
    view = world if isinstance(world, View) else View(world)
    context_of, arm_of = source.orders(view.contexts, view.arms)
    earned, spent, actions = 0.0, 0.0, []
    for t in range(1, steps + 1):
        x = source.context(t, view.contexts)
        a = agent.act(t, x)
        noise = source.noise(t)
        reward, seconds = SKIP if a == view.arms else pull(view, context_of[x], arm_of[a], noise)
        agent.learn(t, x, a, reward, seconds)
        earned += reward
        spent += seconds
        actions.append(a)
    return view.rate * spent - earned, actions


def softmax_trial(world, learning_rate, age, natural, seed, steps, batches=1000):
    """Final regret of NPG-NIW (natural) or SPG-NIW, on numpy's random numbers."""
    source = Fresh(seed)
    estimator = LiteralNIW(source.rng, batches)
    agent = SoftmaxAgent(world, learning_rate, age, natural, estimator, source)
    return trial(world, agent, source, steps)[0]
