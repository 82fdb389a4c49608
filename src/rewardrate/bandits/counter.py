"""Counter-based random numbers: number i of a stream is a function of (key, i), whatever the order of computation.

A stream is SplitMix64 (Steele, Lea and Flood, 2014) started at `key`; number i is its i-th output. Keys of trials and
of steps are outputs themselves. The same code runs on the CPU and on the GPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardrate.bandits.compiled import jit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53

# Purposes of a trial's random numbers; each has its own key.
ORDER, WORLD, AGENT = 0, 1, 2


@jit
def bits(key: Any, i: Any) -> Any:
    """Number i of the stream, 64 bits."""
    return mixed(key + (np.uint64(i) + np.uint64(1)) * GOLDEN)


@jit
def mixed(z: Any) -> Any:
    """SplitMix64's output at state z; states of neighbours are GOLDEN apart."""
    z = (z ^ (z >> S30)) * FIRST
    z = (z ^ (z >> S27)) * SECOND
    return z ^ (z >> S31)


@jit
def uniform(key: Any, i: Any) -> float:
    """Number i of the stream, strictly between 0 and 1."""
    return (float(bits(key, i) >> S11) + 0.5) * UNIT


@jit
def trial_key(seed: Any, purpose: Any) -> Any:
    """The key of one purpose of the trial with this seed."""
    return bits(bits(np.uint64(0), seed), purpose)


@jit
def normal_pair(key: Any, i: Any) -> tuple[float, float]:
    """Two independent standard normals from numbers i and i + 1 (Box and Muller)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, i)))
    angle = 2.0 * math.pi * uniform(key, i + 1)
    return radius * math.cos(angle), radius * math.sin(angle)


@jit
def permute(key: Any, first: Any, order: Any) -> None:
    """Fill `order` with a random permutation of 0 .. n - 1, from numbers `first` on (Fisher and Yates)."""
    for i in range(order.size):
        order[i] = i
    for i in range(order.size - 1, 0, -1):
        j = int(uniform(key, first + i) * (i + 1))
        order[i], order[j] = order[j], order[i]
