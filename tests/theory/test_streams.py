"""What batches in the order of ending lose, against closed forms; and the Kaplan-Meier bounds."""

import itertools

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.theory.streams import (
    TwoKinds,
    by_finish,
    by_start,
    first_share,
    kaplan_meier,
    play_stream,
    schedule,
    stale_share,
    without_stale,
)

RUNS = 60


def shares(kinds, chains, batch, updates, numbers):
    """Runs x updates: the slow share of batches."""
    found = [schedule(kinds, chains, 3 * updates * batch, np.random.default_rng(seed)) for seed in range(RUNS)]
    return np.array([one.slow[numbers(one, batch, updates)].mean(axis=1) for one in found])


def within(values, expected, allowed=0.0):
    """Whether a mean over runs is `expected` within 4 standard errors: wrong once in 16,000 where it is right."""
    return abs(values.mean() - expected) <= 4 * values.std(ddof=1) / np.sqrt(values.size) + allowed


@pytest.mark.parametrize("slow", [3.0, 10.0, 100.0])
def test_batches_in_start_order_have_the_right_share_from_the_first_on(slow):
    found = shares(TwoKinds(slow, jitter=0.1), 32, 16, 20, lambda one, batch, updates: by_start(batch, updates))
    for update in range(20):
        assert within(found[:, update], 0.5)


@pytest.mark.parametrize("slow", [3.0, 10.0, 100.0])
def test_all_that_finish_order_ever_loses_is_the_covariance_over_mean_seconds_for_every_chain_but_one(slow):
    kinds = TwoKinds(slow, jitter=0.1)
    found = shares(kinds, 32, 16, 60, by_finish)
    assert found[:, :2].mean() < 0.42
    lost = 0.5 - found.mean(axis=1)
    assert within(lost, kinds.lost_share(32, 60 * 16), 0.003)  # first order: running attempts are length-biased by then


def test_the_sum_over_ended_and_running_attempts_is_fair_whenever_one_looks():
    """Wald: E[sum of f - E f over what started] = 0 at any time, so ended ones lack what running ones have too much."""
    kinds, off = TwoKinds(10.0, jitter=0.3), []
    for seed in range(400):
        found = schedule(kinds, 8, 200, np.random.default_rng(seed))
        off.append((found.slow[found.start <= 7.0] - 0.5).sum())
    assert within(np.array(off), 0.0)


@pytest.mark.parametrize(("slow", "keep"), [(3.0, 2), (10.0, 2), (100.0, 2), (10.0, 8), (10.0, 1)])
def test_dropping_what_is_old_leaves_the_share_of_the_closed_form_for_ever(slow, keep):
    kinds = TwoKinds(slow, jitter=0.1)
    found = shares(kinds, 64, 32, 40, lambda one, batch, updates: without_stale(one, batch, updates, keep))
    assert found[:, 20:].mean() == pytest.approx(stale_share(kinds, 64, 32, keep), abs=0.04)
    if keep == 8:
        assert stale_share(kinds, 64, 32, keep) == 0.5
    else:
        assert stale_share(kinds, 64, 32, keep) < 0.4


def test_too_few_attempts_that_are_not_stale_are_one_error():
    found = schedule(TwoKinds(3.0), 4, 40, np.random.default_rng(0))
    with pytest.raises(InputError, match="keep"):
        without_stale(found, 4, 1000, 2)


def test_the_share_among_the_first_to_finish_is_the_closed_form():
    kinds, rng = TwoKinds(10.0, share=0.3), np.random.default_rng(0)
    slow, _, seconds = kinds.draw(rng, (20_000, 10))
    first = np.argsort(seconds, axis=1, kind="stable")[:, :8]
    found = np.take_along_axis(slow, first, axis=1).mean(axis=1)
    assert within(found, first_share(kinds, 8, 10))
    assert first_share(kinds, 8, 8) == pytest.approx(0.3)


def test_the_rate_of_what_ended_is_too_high_and_with_running_time_too_low_by_the_closed_forms():
    kinds, ended, both = TwoKinds(10.0, jitter=0.1), [], []
    for seed in range(300):
        found = schedule(kinds, 64, 1200, np.random.default_rng(seed))
        numbers = by_finish(found, 640, 1)[0]
        now = found.end[numbers].max()
        running = (found.start <= now) & (found.end > now)
        earned, spent = found.reward[numbers].sum(), found.seconds[numbers].sum()
        ended.append(earned / spent / kinds.rate)
        both.append(earned / (spent + (now - found.start[running]).sum()) / kinds.rate)
    high, low = kinds.early_rates(64, 640)
    assert low < 0.95 < 1.02 < high
    assert within(np.array(ended), high, 0.006)
    assert within(np.array(both), low, 0.006)


def test_before_the_slow_ones_can_end_nothing_tells_how_slow_they_are():
    """The same data from attempts of 10 and of 100 seconds: so no estimate and no weights are right for both."""
    one, other = (schedule(TwoKinds(slow), 16, 200, np.random.default_rng(3)) for slow in (10.0, 100.0))
    now = 9.5
    for found in (one, other):
        assert (found.end[found.slow] > now).all()
    early = [np.sort(found.end[found.end <= now]) for found in (one, other)]
    assert early[0].tolist() == early[1].tolist()


def test_kaplan_meier_is_exact_once_everything_is_seen_and_brackets_the_rate_before():
    kinds, gaps = TwoKinds(10.0, jitter=0.1), []
    for seed in range(RUNS):
        found = schedule(kinds, 128, 2000, np.random.default_rng(seed))
        for now in (3.0, 25.0):
            done = found.end <= now
            running = now - found.start[(found.start <= now) & ~done]
            limits = {"limit_seconds": 20.0, "most_reward": 3.0}
            bounds = kaplan_meier(found.reward[done], found.seconds[done], running, **limits)
            if now == 3.0:
                assert bounds.low < kinds.rate < bounds.high
                assert bounds.identified == pytest.approx(0.5, abs=0.15)
            else:
                assert bounds.identified > 0.97
                gaps.append((bounds.low + bounds.high) / 2 / kinds.rate)
    assert within(np.array(gaps), 1.0, 0.01)


def test_kaplan_meier_without_running_attempts_is_the_ratio_of_totals_and_by_hand_with_one():
    reward, seconds = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 5.0])
    limits = {"limit_seconds": 10.0, "most_reward": 5.0}
    assert kaplan_meier(reward, seconds, np.array([]), **limits).low == pytest.approx(7 / 9)
    # One runs for 2 s: of four, a quarter ends at 1; three quarters go on, and the one at 3 stands for half of them.
    found = kaplan_meier(reward, seconds, np.array([2.0]), **limits)
    assert found.low == pytest.approx((2 / 4 + 1 * 3 / 8 + 4 * 3 / 8) / (1 / 4 + 3 * 3 / 8 + 5 * 3 / 8))
    assert found.low == found.high
    # One runs for 6 s, longer than all: a quarter is not identified.
    found = kaplan_meier(reward, seconds, np.array([6.0]), **limits)
    assert found.identified == pytest.approx(3 / 4)
    assert found.low == pytest.approx((7 / 4) / (9 / 4 + 10 / 4))
    assert found.high == pytest.approx((7 / 4 + 5 / 4) / (9 / 4 + 6 / 4))


@pytest.mark.parametrize("order", ["start", "finish"])
def test_a_run_learns_every_attempt_once_and_busy_slots_and_mean_age_are_those_of_littles_law(order):
    seconds = np.random.default_rng(0).lognormal(0, 0.7, 20_000)
    found = play_stream(seconds, 16, 200, age=None, order=order)
    assert len(set(found.numbers.ravel().tolist())) == 200 * 16
    assert found.busy == pytest.approx(1.0)
    if order == "finish":
        assert found.ages[50:].mean() == pytest.approx(15 / 16, abs=0.01)  # (chains - 1) / batch, whatever the spread
    else:
        assert found.ages[50:].mean() > 1.5


def test_age_0_waits_for_every_batch_and_a_larger_one_is_faster():
    seconds = np.random.default_rng(1).lognormal(0, 0.7, 2000)
    times = [play_stream(seconds, 8, 20, age=age, order="start").times[-1] for age in (0, 1, 2, 4)]
    assert times[0] == pytest.approx(seconds[:160].reshape(20, 8).max(axis=1).sum())
    assert all(one > other for one, other in itertools.pairwise(times))
