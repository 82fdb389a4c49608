"""The price of a second in a policy-gradient agent: the estimators of `rates`, compiled, fed with greedy steps.

The estimator's memory is a stretch of the agent's state, `memory`; its settings a stretch of the agent's parameters,
`settings`. Both are float64 vectors; the names below are places in them. Paper, section "Bandit Baselines".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardrate.bandits.batch_rates import WEIGHTS, charged_rate
from rewardrate.bandits.compiled import jit
from rewardrate.bandits.lanes import LANES, lane, sum_lanes, sync_lanes
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Estimator, Fixed, RobbinsMonro, Totals

Array = NDArray[np.float64]

# Settings: which estimator, the slots, and up to nine numbers of its own.
KIND, SLOTS, AGE, EVERY, OWN, SETTINGS = 0, 1, 2, 3, 4, 16
KIND_NIW, KIND_ROBBINS_MONRO, KIND_TOTALS, KIND_FIXED = 0.0, 1.0, 2.0, 3.0
# Memory: the price, the next slot, how many slots are filled, sums since the last fit, then the posterior.
PRICE, TURN, FILLED, FRESH_REWARD, FRESH_SECONDS, FRESH_COUNT, POSTERIOR, HEAD = 0, 1, 2, 3, 4, 5, 6, 16


def settings_of(estimator: Estimator, slots: int, age: int, every: int) -> Array:
    """The estimator's settings as numbers; InputError for one that is not compiled here."""
    numbers = np.zeros(SETTINGS)
    kinds = {NIW: KIND_NIW, RobbinsMonro: KIND_ROBBINS_MONRO, Totals: KIND_TOTALS, Fixed: KIND_FIXED}
    if type(estimator) not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds)
        raise InputError("estimator", estimator, f"the laboratory compiles {known}", "or write an agent of your own")
    numbers[:OWN] = kinds[type(estimator)], slots, age, every
    own: tuple[float, ...]
    if isinstance(estimator, NIW):
        floor = 0.0 if estimator.dof_floor is None else estimator.dof_floor
        literal = float(estimator.draws == "literal")
        own = (estimator.forgetting, estimator.batches, estimator.quantile, floor, literal)
    elif isinstance(estimator, RobbinsMonro):
        own = (estimator.power, estimator.floor)
    elif isinstance(estimator, Totals):
        own = (estimator.forgetting,)
    else:
        own = (estimator.estimate.rate,)
    numbers[OWN : OWN + len(own)] = own
    return numbers


def memory_of(estimator: Estimator, slots: int) -> Array:
    """The estimator's memory before the first sample."""
    largest = 0  # rates that the quantile depends on: space for them behind the weights
    posterior = np.zeros(HEAD - POSTERIOR)
    if isinstance(estimator, NIW):
        largest = estimator.batches - int(estimator.quantile * (estimator.batches - 1))
        prior = (estimator.kappa0, estimator.nu0, *estimator.mu0, estimator.psi0, 0.0, estimator.psi0)
        posterior[: len(prior)] = prior
    memory = np.zeros(HEAD + 4 * slots + WEIGHTS + largest)
    memory[POSTERIOR:HEAD] = posterior
    if isinstance(estimator, Fixed):
        memory[PRICE] = estimator.estimate.rate
    return memory


@jit
def feed(memory: Any, settings: Any, t: Any, reward: float, seconds: float, key: Any) -> None:
    """Add a greedy sample, and refit at every step whose number is a multiple of EVERY (8). Paper, "Bandit Baselines".

    A slot older than `age` steps restarts from zero at its next sample. A refit needs two filled slots.
    """
    if lane() == 0:
        add_sample(memory, settings, t, reward, seconds)
    sync_lanes()
    if t % int(settings[EVERY]) == 0 and memory[FILLED] >= 2.0:
        if settings[KIND] == KIND_NIW:
            fit_niw(memory, settings, key)
        elif settings[KIND] == KIND_ROBBINS_MONRO and lane() == 0:
            fit_robbins_monro(memory, settings)
        elif settings[KIND] == KIND_TOTALS and lane() == 0:
            fit_totals(memory, settings)
        if lane() == 0:
            memory[FRESH_REWARD] = memory[FRESH_SECONDS] = memory[FRESH_COUNT] = 0.0


@jit
def add_sample(memory: Any, settings: Any, t: Any, reward: float, seconds: float) -> None:
    """Add a sample to the next slot, in rotation, and to the sums since the last fit."""
    slots = int(settings[SLOTS])
    slot = int(memory[TURN])
    totals = memory[HEAD : HEAD + slots]
    spent = memory[HEAD + slots : HEAD + 2 * slots]
    logs = memory[HEAD + 2 * slots : HEAD + 3 * slots]
    born = memory[HEAD + 3 * slots : HEAD + 4 * slots]
    if spent[slot] == 0.0 or t - born[slot] > settings[AGE]:
        totals[slot], spent[slot], born[slot] = reward, seconds, t
    else:
        totals[slot] += reward
        spent[slot] += seconds
    logs[slot] = math.log(spent[slot])
    memory[TURN] = 0.0 if slot + 1 == slots else slot + 1.0
    memory[FILLED] = max(memory[FILLED], slot + 1.0)
    memory[FRESH_REWARD] += reward
    memory[FRESH_SECONDS] += seconds
    memory[FRESH_COUNT] += 1.0


@jit
def fit_niw(memory: Any, settings: Any, key: Any) -> None:
    """Discount the posterior, add the slots by conjugacy, charge a quantile of the predictive's batch rates.

    `rates.NIW` without arrays: x is a slot's total reward, y the log of its total seconds. Paper, equations
    (method:niw) and (method:rate).
    """
    # Sums over the slots, shared by the lanes: first the means, then the scatter around them (one pass over squares
    # would cancel where seconds hardly vary).
    n, slots = int(memory[FILLED]), int(settings[SLOTS])
    totals, logs = memory[HEAD : HEAD + slots], memory[HEAD + 2 * slots : HEAD + 3 * slots]
    mean_x, mean_y = 0.0, 0.0
    for i in range(lane(), n, LANES):
        mean_x += totals[i]
        mean_y += logs[i]
    mean_x, mean_y, _, _ = sum_lanes(mean_x, mean_y, 0.0, 0.0)
    mean_x /= n
    mean_y /= n
    xx, xy, yy = 0.0, 0.0, 0.0
    for i in range(lane(), n, LANES):
        x, y = totals[i] - mean_x, logs[i] - mean_y
        xx += x * x
        xy += x * y
        yy += y * y
    xx, xy, yy, _ = sum_lanes(xx, xy, yy, 0.0)
    # Conjugate update of the prior: the last posterior with its pseudo-counts discounted by the forgetting factor.
    own, old = settings[OWN:], memory[POSTERIOR:]
    keep = own[0]
    kappa, nu = keep * old[0], max(keep * old[1], own[3])
    weight = kappa * n / (kappa + n)
    shift_x, shift_y = mean_x - old[2], mean_y - old[3]
    psi_xx = keep * old[4] + xx + weight * shift_x * shift_x
    psi_xy = keep * old[5] + xy + weight * shift_x * shift_y
    psi_yy = keep * old[6] + yy + weight * shift_y * shift_y
    mu_x = (kappa * old[2] + n * mean_x) / (kappa + n)
    mu_y = (kappa * old[3] + n * mean_y) / (kappa + n)
    kappa += n
    nu += n
    sync_lanes()  # every lane has read the old posterior
    if lane() == 0:
        old[0], old[1], old[2], old[3], old[4], old[5], old[6] = kappa, nu, mu_x, mu_y, psi_xx, psi_xy, psi_yy
    # The posterior predictive is a bivariate Student-t with nu - d + 1 degrees of freedom, d = 2.
    dof = nu - 1.0
    wide = (kappa + 1.0) / (kappa * dof)
    scale = (psi_xx * wide, psi_xy * wide, psi_yy * wide)
    scratch = memory[HEAD + 4 * slots :]
    rate = charged_rate((mu_x, mu_y), scale, dof, n, int(own[1]), own[2], own[4], key, scratch)
    if lane() == 0:
        memory[PRICE] = max(0.0, rate)


@jit
def fit_robbins_monro(memory: Any, settings: Any) -> None:
    """A Robbins-Monro step on the samples since the last fit: `rates.RobbinsMonro`."""
    own, state = settings[OWN:], memory[POSTERIOR:]  # updates, rate, mean seconds
    step = max(own[1], (state[0] + 1.0) ** -own[0])
    count = memory[FRESH_COUNT]
    seconds = memory[FRESH_SECONDS] / count
    state[2] += step * (seconds - state[2])
    state[1] += step / state[2] * (memory[FRESH_REWARD] / count - state[1] * seconds)
    state[0] += 1.0
    memory[PRICE] = max(0.0, state[1])


@jit
def fit_totals(memory: Any, settings: Any) -> None:
    """Sum of reward over sum of seconds, the past weighed by `forgetting`: `rates.Totals`."""
    own, sums = settings[OWN:], memory[POSTERIOR:]
    sums[0] = own[0] * sums[0] + memory[FRESH_REWARD]
    sums[1] = own[0] * sums[1] + memory[FRESH_SECONDS]
    memory[PRICE] = max(0.0, sums[0] / sums[1])
