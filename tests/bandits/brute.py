"""C-UCB's search over policies the slow way: the reference of the tests and the baseline of the benchmark."""

from __future__ import annotations

import itertools
import math

import numpy as np

from rewardrate.bandits.compiled import is_compiled


def all_indices(reward, seconds, count, kappa):
    """The index of every policy in lexicographic order, all at once; sums run over the contexts in order."""
    r = d = n = np.zeros(1)
    for x in range(len(reward)):
        r = (r[:, None] + reward[x]).ravel()
        d = (d[:, None] + seconds[x]).ravel()
        n = (n[:, None] + count[x]).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        index = r / d - np.sqrt(kappa / n)
    index[n == 0] = -np.inf
    return index


def best(reward, seconds, count, kappa):
    """(largest index, first policy that has it)."""
    index = all_indices(reward, seconds, count, kappa)
    at = int(index.argmax())
    return index[at], np.array(np.unravel_index(at, [len(row) for row in reward]))


def best_one_by_one(reward, seconds, count, kappa):
    """The same as the sentence says it: a loop over policies."""
    top, first = -math.inf, None
    for policy in itertools.product(*(range(len(row)) for row in reward)):
        r = sum(reward[x][a] for x, a in enumerate(policy))
        d = sum(seconds[x][a] for x, a in enumerate(policy))
        n = sum(count[x][a] for x, a in enumerate(policy))
        index = r / d - math.sqrt(kappa / n) if n else -math.inf
        if first is None or index > top:
            top, first = index, policy
    return top, np.array(first)


def sampled(rng, reward, seconds, count, kappa, policies):
    """The paper's approximation: the best of so many policies of arms already played, drawn uniformly."""
    contexts = [x for x in range(len(count)) if count[x].any()]
    drawn = np.stack([rng.choice(np.flatnonzero(count[x]), policies) for x in contexts], axis=1)
    r, d, n = (table[contexts, drawn].sum(axis=1) for table in (reward, seconds, count))
    return float((r / d - np.sqrt(kappa / n)).max())


def kappa_at(t, c1, contexts, actions):
    return 2 * c1 * (math.log(max(t, 2)) + contexts * math.log(actions) / 2)


def trial(world, c1, c2, steps, seed):
    """Play C-UCB by brute force. Yields (t, totals, kappa, largest index, its policy) before every step."""
    rng = np.random.default_rng(seed)
    reward, seconds, count = (np.zeros((world.contexts, world.actions)) for _ in range(3))
    for t in range(1, steps + 1):
        kappa = kappa_at(t, c1, world.contexts, world.actions)
        index, policy = best(reward, seconds, count, kappa)
        yield t, (reward, seconds, count), kappa, index, policy
        x = int(rng.integers(world.contexts))
        a = int(count[x].argmin())
        if count[x, a] > 0:
            width = c2 * np.sqrt(kappa / (2 * c1) / count[x])
            a = int(((reward[x] - max(index, 1e-9) * seconds[x]) / count[x] + width).argmax())
        r, d = draw(world, rng, x, a)
        reward[x, a] += r
        seconds[x, a] += d
        count[x, a] += 1


def draw(world, rng, x, a):
    """One attempt in a world like E1 .. E3, by its true means."""
    if a == world.arms:
        return 0.0, 0.35
    z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]])
    return max(world.mean_reward[x, a] + 0.2 * z[0], 0.0), max(world.mean_seconds[x, a] * (1 + 0.15 * z[1]), 0.5)


def hostile(rng):
    """Totals and a kappa that try to break a search: ties, zeros, huge and tiny values, arms never played."""
    contexts = int(rng.integers(1, 5))
    actions = int(rng.integers(1, {1: 40, 2: 25, 3: 12, 4: 8}[contexts]))
    shape = (contexts, actions)
    count = rng.integers(0, rng.choice([2, 5, 50, 5000]), shape).astype(float)
    if rng.random() < 0.3:
        count = np.maximum(count, 1)
    elif rng.random() < 0.3:
        count *= rng.random(shape) < 0.3
    reward, seconds = rng.random(shape), rng.uniform(0.3, 3, shape)
    match rng.integers(8):
        case 0:
            reward, seconds = np.round(2 * reward) / 2, np.round(2 * seconds) / 2 + 0.5
        case 1:
            reward[:] = 0
        case 2:
            reward *= 10.0 ** rng.integers(-12, 12, shape)
            seconds *= 10.0 ** rng.integers(-6, 6, shape)
        case 3:
            reward[:], seconds[:] = 0.5, 1.0
        case 4:
            reward, seconds = rng.choice([0, 1 / 3, 0.1, 0.7], shape), rng.choice([0.1, 0.3, 0.7, 1 / 3], shape)
        case 5:
            reward, seconds = 1e40 * reward, 1e-40 * seconds
        case 6:  # totals that are small whole numbers whatever the count: many exact ties
            played = np.maximum(count, 1)
            reward, seconds = rng.choice([0, 1, 2, 3], shape) / played, rng.choice([1, 2, 3], shape) / played
    kappa = float(rng.choice([0.0, 1e-300, 1e-6, 0.3, 3.0, 100.0, 1e6, 1e90]))
    return reward * count, seconds * count, count, kappa


def interpret(monkeypatch, *modules):
    """Let Python itself run the functions of these modules, instead of the machine code made from them."""
    plain = {value: value.py_func for module in modules for value in vars(module).values() if is_compiled(value)}
    for module in modules:
        for name, value in list(vars(module).items()):
            if is_compiled(value):
                monkeypatch.setattr(module, name, plain[value])
