"""Random numbers by counter."""

import numpy as np
from scipy import stats

from rewardrate.bandits.counter import AGENT, WORLD, bits, normal_pair, permute, trial_key, uniform

KEY = np.uint64(12345)


def test_a_stream_is_splitmix64():
    """Steele, Lea and Flood's generator, written out with Python's whole numbers."""
    state, mask = 12345, 2**64 - 1
    for i in range(50):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        assert bits(KEY, i) == z ^ (z >> 31)


def test_uniforms_fill_the_open_unit_interval_evenly():
    sample = np.array([uniform(KEY, i) for i in range(20_000)])
    assert 0 < sample.min() < 1e-3
    assert 1 - 1e-3 < sample.max() < 1
    assert stats.kstest(sample, "uniform").pvalue > 1e-3  # a false alarm once in 1,000; the seed is fixed


def test_normal_pairs_are_standard_and_uncorrelated():
    sample = np.array([normal_pair(KEY, 2 * i) for i in range(20_000)])
    assert stats.kstest(sample[:, 0], "norm").pvalue > 1e-3
    assert stats.kstest(sample[:, 1], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(sample.T)[0, 1]) < 3.3 / np.sqrt(20_000)


def test_neighbouring_seeds_and_purposes_share_nothing():
    keys = {trial_key(seed, purpose) for seed in range(500) for purpose in (0, WORLD, AGENT)}
    assert len(keys) == 1500
    one, two = (np.array([uniform(np.uint64(trial_key(seed, WORLD)), i) for i in range(5000)]) for seed in (0, 1))
    assert abs(np.corrcoef(one, two)[0, 1]) < 3.3 / np.sqrt(5000)


def test_permutations_hold_everything_once_and_are_all_as_likely():
    counts = {}
    for seed in range(6000):
        order = np.empty(3, np.int64)
        permute(np.uint64(trial_key(seed, 0)), 0, order)
        counts[tuple(order)] = counts.get(tuple(order), 0) + 1
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3
