"""The charged quantile: order statistics, expansion, saddlepoint and literal draws agree."""

import math

import numpy as np
import pytest
from scipy import stats

from rewardrate.bandits import batch_rates
from rewardrate.bandits.batch_rates import (
    WEIGHTS,
    charged_rate,
    cornish_fisher,
    draw_every_pair,
    gamma,
    normal_isf,
    normal_quantile,
    saddlepoint,
    student_weights,
)
from rewardrate.bandits.counter import bits
from rewardrate.rates.predictive import Predictive, draw_literal


def key(i):
    return np.uint64(bits(np.uint64(5), i))


def predictive(spread, correlation, n, dof):
    deviation = 0.5
    return (0.7, 0.2), (deviation**2, correlation * deviation * spread, spread**2), dof, n


@pytest.mark.parametrize("tail", [1e-9, 1e-3, 0.03, 0.05, 0.3, 0.5, 0.7, 0.999])
def test_the_normal_score_inverts_the_tail(tail):
    assert normal_isf(tail) == pytest.approx(stats.norm.isf(tail), abs=1e-9)


@pytest.mark.parametrize("shape", [1.0, 2.5, 51.0, 950.0])
def test_gamma_draws_are_gamma(shape):
    """n = 4,000, p > 0.001; the seed is fixed."""
    sample = [gamma(shape, key(i), 0)[0] for i in range(4000)]
    assert stats.kstest(sample, stats.gamma(shape).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("batches", "quantile"), [(1000, 0.95), (100, 0.5), (20, 0.99), (1, 0.95)])
def test_the_quantile_of_normals_needs_no_sample(batches, quantile):
    """n = 2,000 a side, two-sample p > 0.001; seeds are fixed."""
    ours = [normal_quantile(batches, quantile, key(i)) for i in range(2000)]
    theirs = np.quantile(np.random.default_rng(0).standard_normal((2000, batches)), quantile, axis=1)
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


CASES = [
    (0.2, 0.5, 128, 181.9),
    (0.6, 0.3, 128, 181.9),
    (0.9, 0.5, 128, 181.9),
    (0.75, 0.8, 32, 40.0),
    (0.7, -0.3, 16, 19.0),
    (0.5, 0.5, 8, 11.0),
    (0.2, -0.3, 8, 11.0),
    (0.5, 0.5, 6, 9.0),
]


@pytest.mark.parametrize("case", CASES)
def test_a_refit_charges_what_literal_draws_charge(case):
    """95th percentiles of 250 batches, 300 refits a side, two-sample p > 0.001; seeds are fixed."""
    mean, scale, dof, n = predictive(*case)
    room = np.zeros(WEIGHTS + 60)
    ours = [charged_rate(mean, scale, dof, n, 250, 0.95, 0.0, key(i), room) for i in range(300)]
    table = Predictive(np.array(mean), np.array([[scale[0], scale[1]], [scale[1], scale[2]]]), dof, n)
    rng = np.random.default_rng(1)
    theirs = [np.quantile(draw_literal(rng, table, 250), 0.95) for _ in range(300)]
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


@pytest.mark.parametrize(("spread", "limit"), [(0.2, 2e-4), (0.5, 2e-3)])
def test_expansion_and_saddlepoint_agree_where_both_hold(spread, limit):
    """In standard deviations of a batch rate; the Monte-Carlo error of a refit is 0.067 of them."""
    mean, scale, dof, n = predictive(spread, 0.4, 128, 181.9)
    room = np.zeros(WEIGHTS)
    for z in (1.4, 1.645, 1.9):
        rate, truncation = cornish_fisher(z, mean, scale, dof, float(n), room)
        deviation = (
            cornish_fisher(1.0, mean, scale, dof, float(n), room)[0]
            - cornish_fisher(-1.0, mean, scale, dof, float(n), room)[0]
        ) / 2
        assert abs(saddlepoint(z, rate, mean, scale, dof, float(n), room) - rate) < (truncation + limit) * deviation * 2
        assert truncation < 0.002


def test_the_compiled_literal_draws_are_those_of_the_estimator():
    """300 refits of 100 batches of 12 pairs a side, two-sample p > 0.001; seeds are fixed."""
    mean, scale, dof, n = predictive(0.6, 0.5, 12, 15.0)
    room = np.zeros(30)
    ours = [draw_every_pair(mean, scale, dof, n, 100, 0.95, key(i), room) for i in range(300)]
    table = Predictive(np.array(mean), np.array([[scale[0], scale[1]], [scale[1], scale[2]]]), dof, n)
    rng = np.random.default_rng(2)
    theirs = [np.quantile(draw_literal(rng, table, 100), 0.95) for _ in range(300)]
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


def test_constant_rows_give_their_ratio():
    room = np.zeros(WEIGHTS + 60)
    assert charged_rate(
        (2.0, math.log(4.0)), (0.0, 0.0, 0.0), 50.0, 40, 1000, 0.95, 0.0, key(0), room
    ) == pytest.approx(0.5)


def test_weights_are_kept_until_the_degrees_of_freedom_change():
    room = np.zeros(WEIGHTS)
    student_weights(50.0, room)
    first = room.copy()
    room[0] = 9.0
    student_weights(50.0, room)
    assert room[0] == 9.0
    student_weights(51.0, room)
    assert room[0] != first[0]
    assert room[0] + 2 * room[1 : batch_rates.HALF + 1].sum() == pytest.approx(1.0)
