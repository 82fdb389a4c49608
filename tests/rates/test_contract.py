"""Every estimator of ours keeps the contract, and a bad one is caught."""

import math
import subprocess
import sys

import pytest

from rewardrate.errors import InputError
from rewardrate.rates import ESTIMATORS, RateEstimate, Totals
from rewardrate.rates.contract import CHECKS, ContractBroken
from rewardrate.rates.totals import Sums


def case(kind, check):
    slow = (kind, check.__name__) == ("neural", "units_do_not_matter")  # trains two networks
    return pytest.param(kind, check, id=f"{kind}-{check.__name__}", marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("kind", "check"), [case(kind, check) for kind in ESTIMATORS for check in CHECKS])
def test_our_estimators_keep_their_promises(kind, check):
    if kind == "neural":
        pytest.importorskip("torch")
    assert check(ESTIMATORS[kind])


class Negative(Totals):
    def _commit(self, state, estimate):  # past the base class, which would object
        self.state = state
        self._estimate = RateEstimate(estimate.mean, estimate.mean, estimate.low, estimate.high, estimate.count)


class UpsideDown(Totals):
    def _commit(self, state, estimate):
        self.state = state
        self._estimate = RateEstimate(estimate.rate, estimate.mean, 1.0, -1.0, estimate.count)


class Credulous(Totals):
    def update(self, reward, seconds, valid=None):
        return self.estimate


class Vague(Totals):
    def update(self, reward, seconds, valid=None):
        try:
            return super().update(reward, seconds, valid)
        except InputError:
            raise InputError("input", 0, "something is wrong") from None


class Dirty(Totals):
    def update(self, reward, seconds, valid=None):
        self.state = Sums(w=self.state.w + 1, s=1.0, ww=1.0)
        return super().update(reward, seconds, valid)


class Amnesiac(Totals):
    def parse_state(self, saved):
        return self.state


class Stubborn(Totals):
    def absorb(self, reward, seconds):
        sums, estimate = super().absorb(reward, seconds)
        return sums, RateEstimate.around(0.01, 0.0, estimate.count)


class Broken(Totals):
    def _commit(self, state, estimate):
        self._estimate = RateEstimate(math.nan, 0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (Negative, "rate_is_finite_and_never_negative"),
        (UpsideDown, "rate_is_finite_and_never_negative"),
        (Broken, "rate_is_finite_and_never_negative"),
        (Credulous, "bad_rows_are_refused_and_change_nothing"),
        (Vague, "bad_rows_are_refused_and_change_nothing"),
        (Dirty, "empty_update_changes_nothing"),
        (Amnesiac, "state_is_plain_json_and_resumes_bit_for_bit"),
        (Stubborn, "units_do_not_matter"),
        (Stubborn, "converges_on_a_renewal_process"),
        (Stubborn, "recovers_after_a_change_point"),
    ],
)
def test_each_promise_can_be_broken_and_is_then_noticed(bad, name):
    check = next(check for check in CHECKS if check.__name__ == name)
    with pytest.raises(ContractBroken):
        check(bad)


def test_checks_do_not_melt_away_under_optimisation():
    code = (
        "from rewardrate.rates import Totals\n"
        "from rewardrate.rates.contract import CHECKS, ContractBroken\n"
        "class Amnesiac(Totals):\n    def parse_state(self, saved): return self.state\n"
        "try: CHECKS[3](Amnesiac)\n"
        "except ContractBroken: print('noticed')\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "noticed\n"


class Liar(Totals):
    def update(self, reward, seconds, valid=None):
        super().update(reward, seconds, valid)
        return RateEstimate(1.0, 1.0, 1.0, 1.0, 1)


def test_an_update_that_returns_something_else_is_noticed():
    with pytest.raises(ContractBroken, match="must return what"):
        CHECKS[0](Liar)
