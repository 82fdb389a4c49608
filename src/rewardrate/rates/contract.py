"""The promises every rate estimator keeps, as checks that ship with the package.

    import pytest
    from rewardrate.rates.contract import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_estimator_keeps_its_promises(check):
        check(lambda: MyEstimator())

A check takes a function that makes a fresh estimator, raises ContractBroken (an AssertionError) when a promise is
broken, and returns what it measured in a few words. All draws are seeded: a check gives the same verdict every time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np

from rewardrate.attempt import RateEstimate
from rewardrate.errors import InputError
from rewardrate.rates.accumulators import Accumulators
from rewardrate.rates.changepoint import recovery
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.renewal import Renewal

Make = Callable[[], Estimator]


class ContractBroken(AssertionError):
    """A promise that an estimator did not keep."""


CHAINS = 128
CONSISTENCY_UPDATES = 100
CONSISTENCY_TOLERANCE = 0.05  # of the true rate; the ratio's own standard error after 12,800 rows is 0.7 %
EQUIVARIANCE_TOLERANCE = 0.01  # a prior in fixed units (NIW) bends the symmetry by less than this


def rate_is_finite_and_never_negative(make: Make) -> str:
    """Whatever finite rows come, also negative, tiny and huge ones, the charged rate is finite and at least 0."""
    rng = np.random.default_rng(1)
    worst = math.inf
    for scale in (1e-6, 1.0, 1e6):
        for sign in (-1.0, 1.0):
            estimator = make()
            _promise(estimator.estimate.rate >= 0, "the estimate before the first update must be at least 0")
            for _ in range(6):
                rows = sign * scale * rng.normal(0.3, 1.0, 16), np.exp(rng.normal(0.0, 2.0, 16)) / scale
                returned = estimator.update(*rows)
                worst = min(worst, _check_estimate(returned))
                _promise(returned == estimator.estimate, "update() must return what .estimate says")
    return f"smallest rate {worst:.3g}"


def bad_rows_are_refused_and_change_nothing(make: Make) -> str:
    """NaN, infinite or non-positive input raises InputError naming the row, and the state is as before."""
    good_reward, good_seconds = np.full(4, 0.5), np.array([1.0, 2.0, 3.0, 4.0])
    bad = {"reward": (math.nan, math.inf, -math.inf), "seconds": (math.nan, math.inf, 0.0, -1.0)}
    refused = 0
    estimator = make()
    estimator.update(good_reward, good_seconds)
    for field, values in bad.items():
        for value in values:
            reward, seconds = good_reward.copy(), good_seconds.copy()
            (reward if field == "reward" else seconds)[2] = value
            before = json.dumps(estimator.state_dict(), sort_keys=True)
            try:
                estimator.update(reward, seconds)
            except InputError as error:
                _promise(f"{field}[2]" in str(error), f"the error must name the row: {error}")
            else:
                raise ContractBroken(f"{field} = {value} was accepted")
            _promise(
                json.dumps(estimator.state_dict(), sort_keys=True) == before, f"{field} = {value} changed the state"
            )
            refused += 1
    return f"{refused} kinds refused"


def empty_update_changes_nothing(make: Make) -> str:
    """No rows, no change."""
    estimator = make()
    estimator.update([0.5, 0.6], [1.0, 2.0])
    before = json.dumps(estimator.state_dict(), sort_keys=True)
    estimator.update([], [])
    _promise(json.dumps(estimator.state_dict(), sort_keys=True) == before, "an empty update changed the state")
    return "unchanged"


def state_is_plain_json_and_resumes_bit_for_bit(make: Make) -> str:
    """Saved as text after every update and loaded into a fresh estimator, a run gives the same numbers."""
    process, rng = Renewal(), np.random.default_rng(2)
    straight, resumed = make(), make()
    chains = Accumulators(32)
    for _ in range(6):
        chains.update(*process.draw(rng, 32))
        text = json.dumps(resumed.state_dict(), allow_nan=False)
        resumed = make()
        resumed.load_state_dict(json.loads(text))
        _promise(chains.fit(straight) == chains.fit(resumed), "the resumed estimate differs")
    _promise(straight.state_dict() == resumed.state_dict(), "the resumed state differs")
    return f"{len(text):,} bytes"


def units_do_not_matter(make: Make) -> str:
    """Seconds x 10 -> rate / 10; reward x 10 -> rate x 10."""
    if not make().adapts:
        return "does not adapt"
    plain = _run(make, 1.0, 1.0).rate
    _promise(plain > 0, "the rate of a process that earns must be positive")
    slower, richer = _run(make, 1.0, 10.0).rate * 10, _run(make, 10.0, 1.0).rate / 10
    worst = max(abs(slower / plain - 1), abs(richer / plain - 1))
    found = f"rate {plain:.6g}; seconds x 10: {slower:.6g} / 10; reward x 10: 10 x {richer:.6g}"
    _promise(worst <= EQUIVARIANCE_TOLERANCE, found)
    return f"off by {worst:.1e}"


def converges_on_a_renewal_process(make: Make) -> str:
    """On independent (reward, seconds) pairs the rate approaches E[reward] / E[seconds]: 12,800 rows, within 5 %."""
    if not make().adapts:
        return "does not adapt"
    truth, estimate = Renewal().rate, _run(make, 1.0, 1.0)
    error = max(abs(estimate.rate / truth - 1), abs(estimate.mean / truth - 1))
    _promise(error <= CONSISTENCY_TOLERANCE, f"true rate {truth:.5g}, estimate {estimate}")
    return f"off by {100 * error:.1f} %"


def recovers_after_a_change_point(make: Make) -> str:
    """After the process becomes four times faster at update 11 the rate comes within 10 % and stays (1,000 updates)."""
    if not make().adapts:
        return "does not adapt"
    needed = recovery(make())
    _promise(needed is not None, "the rate did not recover within 1,000 updates")
    return f"{needed} updates"


CHECKS: tuple[Callable[[Make], str], ...] = (
    rate_is_finite_and_never_negative,
    bad_rows_are_refused_and_change_nothing,
    empty_update_changes_nothing,
    state_is_plain_json_and_resumes_bit_for_bit,
    units_do_not_matter,
    converges_on_a_renewal_process,
    recovers_after_a_change_point,
)


def _run(make: Make, reward_unit: float, seconds_unit: float) -> RateEstimate:
    """The estimate after CONSISTENCY_UPDATES updates of CHAINS chains, in the given units."""
    process, rng = Renewal(), np.random.default_rng(3)
    chains, estimator = Accumulators(CHAINS), make()
    for _ in range(CONSISTENCY_UPDATES):
        reward, seconds = process.draw(rng, CHAINS)
        estimate = chains.update(reward * reward_unit, seconds * seconds_unit).fit(estimator)
    return estimate


def _check_estimate(estimate: RateEstimate) -> float:
    values = (estimate.rate, estimate.mean, estimate.low, estimate.high)
    _promise(all(math.isfinite(value) for value in values), f"not finite: {estimate}")
    _promise(estimate.rate >= 0, f"negative: {estimate}")
    _promise(estimate.low <= estimate.high, f"the interval is upside down: {estimate}")
    return estimate.rate


def _promise(kept: bool, words: str) -> None:
    """Not `assert`: python -O must not make every estimator look good."""
    if not kept:
        raise ContractBroken(words)
