"""Sample an arm: reward and seconds, jointly."""

from __future__ import annotations

import math
from typing import Any

from rewardrate.bandits.compiled import jit
from rewardrate.bandits.counter import normal_pair
from rewardrate.bandits.world import LEAST_SECONDS, LOG_SPREAD, REWARD_NOISE, SKIP, TIME_NOISE

SKIP_REWARD, SKIP_SECONDS = SKIP
LOG_SHIFT = LOG_SPREAD * LOG_SPREAD / 2


@jit
def draw(reward: float, seconds: float, correlation: float, lognormal: float, key: Any, i: Any) -> tuple[float, float]:
    """(r, delta) of an arm with these design means, from numbers i and i + 1 of a stream.

        E1 .. E3:  r = max(mu_r + sigma_r z1, 0)              delta = max(mu_d (1 + noise z2), floor)
        E4:        r = mu_r exp(sigma_log z1 - sigma_log^2/2)  delta = max(mu_d exp(sigma_log z2 - ...), floor)

    with z2 = correlation z1 + sqrt(1 - correlation^2) xi. Paper, equations (bandit:copula), (bandit:e1), (bandit:e4).
    """
    z1, xi = normal_pair(key, i)
    z2 = correlation * z1 + math.sqrt(1.0 - correlation * correlation) * xi
    if lognormal > 0.0:
        r = reward * math.exp(LOG_SPREAD * z1 - LOG_SHIFT)
        return r, max(seconds * math.exp(LOG_SPREAD * z2 - LOG_SHIFT), LEAST_SECONDS)
    return max(reward + REWARD_NOISE * z1, 0.0), max(seconds + TIME_NOISE * seconds * z2, LEAST_SECONDS)
