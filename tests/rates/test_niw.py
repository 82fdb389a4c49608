"""The Normal-Inverse-Wishart estimator: the paper's update, the authors' numbers."""

import math

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import NIW
from rewardrate.rates.niw import percentiles, student_t

REWARD, SECONDS = [0.5, 0.6, 0.7, 0.8], [10, 20, 30, 40]


@pytest.mark.parametrize("draws", ["auto", "literal"])
def test_golden_numbers_of_the_first_update(draws):
    """Computed from the authors' definitions with seed 0; four slots are too few to transform, so both must agree."""
    niw = NIW(draws=draws)
    estimate = niw.update(REWARD, SECONDS)
    kappa, nu, mu, psi = niw.posterior
    assert kappa == pytest.approx(4.0003, abs=1e-12)
    assert nu == 8
    assert mu.tolist() == pytest.approx([0.6499512536559758, 3.0968662856096114], rel=1e-13)
    assert psi[0].tolist() == pytest.approx([0.05042674049446293, 0.2288212984990857], rel=1e-12)
    assert psi[1].tolist() == pytest.approx([0.2288212984990857, 1.087384883281628], rel=1e-12)
    assert estimate.mean == pytest.approx(0.0270523573, abs=6e-11)
    assert estimate.rate == pytest.approx(0.0356872944, abs=6e-11)
    assert estimate.low == pytest.approx(0.0166475572, abs=6e-11)
    assert estimate.high == pytest.approx(0.0374742126, abs=6e-11)
    assert estimate.count == 4


def textbook_update(kappa, nu, mu, psi, reward, seconds, forgetting, floor):
    """The conjugate update, written out with matrices."""
    z = np.column_stack([reward, np.log(seconds)])
    n, mean = len(z), z.mean(axis=0)
    kappa, psi = forgetting * kappa, forgetting * psi
    nu = forgetting * nu if floor is None else max(forgetting * nu, floor)
    scatter = (z - mean).T @ (z - mean) + kappa * n / (kappa + n) * np.outer(mean - mu, mean - mu)
    return kappa + n, nu + n, (kappa * mu + n * mean) / (kappa + n), psi + scatter


@pytest.mark.parametrize("floor", [4.0, None])
def test_the_posterior_follows_the_textbook_over_many_updates(floor):
    rng = np.random.default_rng(0)
    niw = NIW(forgetting=0.4, dof_floor=floor)
    kappa, nu, mu, psi = 1e-3, 3.0, np.zeros(2), 1e-3 * np.eye(2)
    for n in (2, 16, 16, 64, 3):
        reward, seconds = rng.uniform(0, 1, n), rng.uniform(1, 9, n)
        niw.update(reward, seconds)
        kappa, nu, mu, psi = textbook_update(kappa, nu, mu, psi, reward, seconds, 0.4, floor)
        ours = niw.posterior
        assert ours.kappa == pytest.approx(kappa, rel=1e-13)
        assert ours.nu == pytest.approx(nu, rel=1e-13)
        assert ours.mu.tolist() == pytest.approx(mu.tolist(), rel=1e-12)
        assert ours.psi.ravel().tolist() == pytest.approx(psi.ravel().tolist(), rel=1e-10)


def test_the_counts_settle_at_n_over_one_minus_forgetting():
    rng, niw = np.random.default_rng(0), NIW()
    for _ in range(60):
        niw.update(rng.uniform(0, 1, 128), rng.uniform(1, 2, 128))
    assert niw.posterior.kappa == pytest.approx(128 / 0.7)
    assert niw.posterior.nu == pytest.approx(128 / 0.7)


def test_the_predictive_has_nu_minus_one_degrees_of_freedom():
    niw = NIW()
    niw.update(np.linspace(0, 1, 128), np.linspace(1, 2, 128))
    predictive = student_t(niw.posterior, 128)
    assert predictive.dof == 131
    expected = niw.posterior.psi * (129.0003 / (128.0003 * 131))
    assert predictive.scale.ravel().tolist() == pytest.approx(expected.ravel().tolist(), rel=1e-9)


def test_no_row_changes_nothing_and_a_single_one_is_refused():
    niw = NIW()
    niw.update(REWARD, SECONDS)
    before = niw.state_dict()
    assert niw.update([], []) == niw.estimate
    with pytest.raises(InputError, match="at least 2 rows at once"):
        niw.update([0.5], [1.0])
    assert niw.state_dict() == before


def test_transformed_and_literal_draws_agree_on_a_long_run():
    """Thirty updates of 128 slots: means within four Monte-Carlo standard errors, charged rates within 2 %."""
    rng = np.random.default_rng(1)
    fast, slow = NIW(), NIW(draws="literal")
    for _ in range(30):
        reward, seconds = rng.normal(8, 1, 128), np.exp(rng.normal(4, 0.3, 128))
        ours, theirs = fast.update(reward, seconds), slow.update(reward, seconds)
        error = (theirs.high - theirs.low) / 3.92 / math.sqrt(1000)
        assert abs(ours.mean - theirs.mean) < 4 * error * math.sqrt(2)
        assert ours.rate == pytest.approx(theirs.rate, rel=0.02)


def test_a_higher_quantile_charges_more():
    rates = [NIW(quantile=q).update(np.linspace(0.4, 0.9, 64), np.linspace(10, 30, 64)).rate for q in (0.5, 0.75, 0.95)]
    assert rates == sorted(rates)
    assert rates[0] < rates[2]


def test_negative_rewards_charge_nothing():
    estimate = NIW().update(-np.linspace(1, 2, 64), np.linspace(10, 30, 64))
    assert estimate.rate == 0.0
    assert estimate.mean < 0


def test_percentiles_interpolate_as_numpy_does():
    sample = np.random.default_rng(0).normal(size=1000)
    quantiles = (0.95, 0.0, 0.025, 0.5, 1.0)
    expected = np.percentile(sample, [100 * quantile for quantile in quantiles])
    assert percentiles(sample.copy(), quantiles) == pytest.approx(expected.tolist(), abs=1e-14)
    assert percentiles(np.array([3.0]), (0.5,)) == [3.0]


@pytest.mark.parametrize(
    "settings",
    [
        {"forgetting": 0.0},
        {"forgetting": 1.5},
        {"batches": 0},
        {"quantile": 1.0},
        {"kappa0": 0.0},
        {"psi0": -1.0},
        {"nu0": 1.0},
        {"dof_floor": 0.5},
        {"draws": "literaly"},
        {"seed": -1},
    ],
)
def test_impossible_settings_are_refused_by_name(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        NIW(**settings)
