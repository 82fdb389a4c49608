"""Drawing batch rates by inverse transform is the same as drawing every pair."""

import math

import numpy as np
import pytest
from scipy import stats

from rewardrate.rates.predictive import Predictive, co_moments, draw_literal, draw_transformed


def predictive(size=128, spread=0.36, correlation=0.5, noise=0.3, dof=131.0, mean=(1.0, 3.0)):
    off = correlation * noise * spread
    return Predictive(np.array(mean), np.array([[noise**2, off], [off, spread**2]]), dof, size)


def refit(draw, case, refits, seed, batches=1000):
    rng = np.random.default_rng(seed)
    return np.array([np.percentile(draw(rng, case, batches), 95) for _ in range(refits)])


def transformed(rng, case, batches):
    rates = draw_transformed(rng, case, batches, 0.95)
    assert rates is not None, "the fast path must be taken here"
    return rates


@pytest.mark.slow
@pytest.mark.parametrize("refits", [400, pytest.param(2000, marks=pytest.mark.deep)])
def test_the_95th_percentile_has_the_same_distribution_over_many_refits(refits):
    """At the paper's size (n = 128, M = 1000): the shape by Kolmogorov-Smirnov, the place by all literal rates pooled.

    False alarms 0.1 % each. Only the literal version is slow, so 2,000 fast refits are held against fewer of it.
    """
    case = predictive()
    rng = np.random.default_rng(1)
    pooled = np.array([draw_literal(rng, case, 1000) for _ in range(refits)])
    literal, fast = np.percentile(pooled, 95, axis=1), refit(transformed, case, 2000, 2)
    assert stats.ks_2samp(literal, fast).pvalue > 1e-3

    share = stats.beta.median(0.95 * 999 + 1, 0.05 * 999 + 1)  # of all rates below such a percentile of 1,000

    def is_off(charged):
        return abs((pooled <= np.median(charged)).mean() - share) > 3.3 * math.sqrt(share * (1 - share) / pooled.size)

    assert not is_off(fast)
    assert is_off(fast + 0.25 * fast.std()), "the test must notice a bias of a quarter standard deviation"


@pytest.mark.parametrize(
    "case",
    [
        predictive(correlation=-0.95),
        predictive(spread=0.05, correlation=0.99, noise=0.05, dof=182.0),
        predictive(spread=0.6, correlation=0.5, noise=0.5, dof=182.0),
        predictive(size=48, spread=0.3, correlation=0.0, dof=67.0),
        predictive(noise=3.0, mean=(0.2, -2.0)),
        predictive(mean=(-1.0, 0.0)),
    ],
    ids=["negative correlation", "hardly any spread", "wide times", "few slots", "mostly noise", "negative reward"],
)
def test_single_batch_rates_have_the_same_distribution(case):
    """Kolmogorov-Smirnov on 20,000 batch rates each; false alarms 0.1 % per case."""
    rng = np.random.default_rng(3)
    literal = np.concatenate([draw_literal(rng, case, 2000) for _ in range(10)])
    fast = np.concatenate([transformed(rng, case, 1000) for _ in range(20)])
    assert stats.ks_2samp(literal, fast).pvalue > 1e-3


@pytest.mark.parametrize(
    "case",
    [
        predictive(size=5, spread=0.43, correlation=0.0, noise=1.2, dof=1238.0, mean=(0.1, 3.0)),
        predictive(size=3, spread=0.32, correlation=0.0, noise=7.6, dof=234.0),
        predictive(size=32, spread=0.52, correlation=0.58, noise=2.0, dof=44.7, mean=(-1.0, 3.0)),
        predictive(size=4, dof=7.0),
        predictive(spread=1.5),
        predictive(dof=5.0),
        predictive(spread=30.0),
        predictive(size=8, dof=11.0),
    ],
    ids=[
        "five slots, much data",
        "three slots, much data",
        "outer nodes without a root",
        "four slots",
        "times wildly spread",
        "five degrees of freedom",
        "absurd spread",
        "eight slots",
    ],
)
def test_where_the_expansion_is_not_accurate_it_declines_and_leaves_the_stream_alone(case):
    rng = np.random.default_rng(4)
    before = rng.bit_generator.state
    assert draw_transformed(rng, case, 1000, 0.95) is None
    assert rng.bit_generator.state == before


def test_more_batches_ask_for_more_accuracy():
    case = predictive(spread=0.6, noise=0.5, dof=182.0)
    assert draw_transformed(np.random.default_rng(0), case, 1000, 0.95) is not None
    assert draw_transformed(np.random.default_rng(0), case, 1_000_000, 0.95) is None


def test_the_polynomial_stands_for_the_equation_where_it_counts():
    """Random settings: wherever the fast path is taken, its 95th percentile is right to 5 standard errors of 40,000."""
    rng, taken = np.random.default_rng(6), 0
    for _ in range(60):
        size, spread, noise = int(rng.choice([16, 24, 48])), 10 ** rng.uniform(-3, 0), 10 ** rng.uniform(-2, 1)
        case = predictive(
            size, spread, rng.uniform(-1, 1), noise, size * rng.uniform(1.05, 3), (rng.choice([1.0, 0.1, -1.0]), 3.0)
        )
        fast = draw_transformed(rng, case, 1000, 0.95)
        if fast is not None and taken < 12:
            taken += 1
            charged = np.median([np.quantile(transformed(rng, case, 1000), 0.95) for _ in range(200)])
            literal = np.concatenate([draw_literal(rng, case, 2000) for _ in range(20)])
            assert abs((literal <= charged).mean() - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 40_000)
    assert taken == 12


def test_constant_pairs_give_constant_rates():
    case = Predictive(np.array([2.0, math.log(4.0)]), np.zeros((2, 2)), 131.0, 128)
    rates = draw_transformed(np.random.default_rng(0), case, 100, 0.95)
    assert rates == pytest.approx(np.full(100, 0.5), rel=1e-12)


def test_co_moments_agree_with_a_large_sample():
    """One million pairs; each moment within five standard errors (or 1e-12)."""
    case = predictive(correlation=-0.4, dof=60.0)
    rng = np.random.default_rng(5)
    pairs = (
        rng.multivariate_normal(np.zeros(2), case.scale, 1_000_000)
        / np.sqrt(rng.chisquare(60.0, 1_000_000) / 60.0)[:, None]
    )
    moments = co_moments(case)
    time = np.exp(pairs[:, 1])
    assert moments.time == pytest.approx(time.mean(), rel=1e-3)
    for t in (0.0, 0.7, -1.3):
        w = pairs[:, 0] - t * (time - moments.time)
        for order in range(2, 6):
            sample = w**order
            ours = moments.central[order - 2] @ t ** np.arange(6)
            assert abs(ours - sample.mean()) < 5 * sample.std() / 1000 + 1e-12
