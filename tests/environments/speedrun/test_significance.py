"""Repeats: the t-test against scipy's own, and what several verdicts show together."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from rewardrate.environments.speedrun.race import load
from rewardrate.environments.speedrun.significance import p_below, repeated, together
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

RACE = load("nanogpt-mini", changes={"target_loss": 3.28})


def valid(loss, seconds=60.0):
    return Verdict(True, 0.0, loss, seconds, "fine", "ok", "", printed_loss=loss, crossed=loss <= 3.28)


FAULT = Verdict(False, 0.0, None, 0.1, "no", "sandbox-failure", "")
CRASH = Verdict(False, 0.0, None, 3.0, "no", "error", "")


def test_the_p_value_is_that_of_the_one_sided_t_test():
    losses = np.random.default_rng(3).normal(3.279, 0.002, 12).tolist()
    expected = stats.ttest_1samp(losses, 3.28, alternative="less").pvalue
    assert p_below(losses, 3.28) == pytest.approx(expected)


def test_false_claims_stay_below_the_level():
    """4,000 scripts whose true mean is the target, 5 runs each: at most 1 % cross, within 4 standard errors."""
    losses = np.random.default_rng(4).normal(3.28, 0.003, (4000, 5))
    share = np.mean([p_below(row.tolist(), 3.28) < 0.01 for row in losses])
    assert share < 0.01 + 4 * (0.01 * 0.99 / 4000) ** 0.5


def test_equal_losses_are_one_run_told_twice_and_show_nothing():
    assert p_below([3.2, 3.2], 3.28) == 1.0
    assert p_below([3.28, 3.28], 3.28) == 1.0
    for losses in ([], [3.1], [3.1, float("nan")]):
        with pytest.raises(InputError, match="at least two"):
            p_below(losses, 3.28)


def test_one_run_crosses_by_itself_and_several_by_their_mean():
    assert together(RACE, [valid(3.27)]).crossed
    assert not together(RACE, [valid(3.29)]).crossed
    several = together(RACE, [valid(3.270, 50), valid(3.271, 60), valid(3.272, 70)])
    assert several.crossed
    assert several.mean_loss == pytest.approx(3.271)
    assert (several.mean_seconds, several.deviation_seconds) == (60.0, 10.0)
    assert several.deviation_loss == pytest.approx(0.001)
    doubtful = together(RACE, [valid(3.25), valid(3.30)])
    assert doubtful.mean_loss < 3.28
    assert not doubtful.crossed


def test_our_own_faults_do_not_count_and_a_crash_spoils_the_claim():
    assert together(RACE, [valid(3.2), FAULT]).crossed
    spoilt = together(RACE, [valid(3.2), valid(3.21), CRASH])
    assert (spoilt.crossed, spoilt.valid, len(spoilt.verdicts)) == (False, 2, 3)
    none = together(RACE, [FAULT])
    assert (none.verdicts, none.mean_loss, none.mean_seconds, none.crossed) == ((), None, None, False)


def test_a_script_is_run_as_often_as_asked():
    @dataclasses.dataclass
    class Fixed:
        race = RACE

        def run(self, codes, *, numbers):
            return [valid(3.2 + number / 1e6) for number, _ in zip(numbers, codes, strict=True)]

    claimed = repeated(Fixed(), "pass", 4)
    assert len(claimed.verdicts) == 4
    assert len({verdict.score for verdict in claimed.verdicts}) == 4
    for runs in (0, True, 1.5):
        with pytest.raises(InputError, match="whole number of at least 1"):
            repeated(Fixed(), "pass", runs)
