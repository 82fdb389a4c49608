"""The two arms as in the paper, and the hazards of pricing time, each as a toy."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate import config
from rewardrate.attempt import Outcome
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, RateEstimate, Totals
from rewardrate.theory import optimal_rate
from rewardrate.training import Objective
from rewardrate.training.objective import Overhead

LIMIT = 600.0


def outcome(reward, seconds, status="ok"):
    valid = status == "ok"
    return Outcome(valid, reward if valid else 0.0, reward if valid else None, seconds, "", status, "code")


def rewards(objective, outcomes, rate, best_before=math.inf):
    """What the learner gets: relative reward plus bonus."""
    left = objective.relative(outcomes, rate, limit_seconds=LIMIT)
    bonuses = objective.bonuses(outcomes, best_before)
    return [None if one is None else one + bonus for one, bonus in zip(left, bonuses, strict=True)]


def choice(objective, scripts, rate):
    """Which script the objective likes best, once the bonus is out of reach."""
    values = rewards(objective, list(scripts.values()), rate)
    return list(scripts)[int(np.argmax(values))]


def fixed_point(scripts):
    """The price that prices itself: the best rate any of the scripts has."""
    reward, seconds = zip(*((one.reward, one.seconds) for one in scripts.values()), strict=True)
    return optimal_rate([list(reward)], [list(seconds)], [1.0])


# ---- the equation


def test_both_arms_are_those_of_the_paper():
    batch = [outcome(0.8, 20.0), outcome(0.0, 3.0, "error"), outcome(0.0, 600.0, "timeout")]
    assert rewards(Objective("rpg"), batch, 0.01) == pytest.approx([0.8 - 0.2, -10 - 6, -10 - 6], abs=1e-12)
    assert rewards(Objective("vanilla"), batch, 0.01) == [0.8, -10.0, -10.0]


def test_a_timeout_with_overhead_pays_all_its_seconds():
    late = outcome(0.0, LIMIT + 4.0, "timeout")
    assert rewards(Objective("rpg"), [late], 0.01) == pytest.approx([-10 - 0.01 * (LIMIT + 4.0)])


def test_a_failure_of_the_sandbox_has_no_reward():
    batch = [outcome(0.5, 1.0), outcome(0.0, 9.0, "sandbox-failure")]
    for arm in ("rpg", "vanilla"):
        assert rewards(Objective(arm), batch, 0.1)[1] is None
        assert Objective(arm).relative(batch, 0.1, limit_seconds=LIMIT)[1] is None
        assert Objective(arm).bonuses(batch, None) == [0.5, 0.0]


def test_an_overhead_is_added_to_what_the_policy_answers_for_and_to_nothing_else():
    one = Overhead(seconds=1.5, generation=True)
    assert one.added(outcome(0.5, 2.0), 0.25).seconds == 3.75
    assert one.added(outcome(0.0, 2.0, "error"), 0.25).seconds == 3.75
    assert one.added(outcome(0.0, 2.0, "sandbox-failure"), 0.25).seconds == 2.0
    assert Overhead().added(outcome(0.5, 2.0), 9.0).seconds == 2.0
    assert (Overhead().clock("wall"), one.clock("warm")) == ("wall", "warm + 1.5 s + generation")
    with pytest.raises(InputError, match=r"overhead\.seconds"):
        Overhead(seconds=math.nan)


def test_the_bonus_is_for_those_who_beat_every_retained_solution():
    batch = [outcome(0.5, 1.0), outcome(0.6, 1.0), outcome(0.7, 1.0), outcome(0.0, 1.0, "error")]
    assert Objective().bonuses(batch, 0.6) == [0.0, 0.0, 0.5, 0.0]
    assert Objective("vanilla").bonuses(batch, 0.6) == [0.0, 0.0, 0.5, 0.0]
    assert rewards(Objective("vanilla"), batch, 0.0, 0.55) == [0.5, 1.1, 1.2, -10.0]


def test_with_an_empty_buffer_every_valid_attempt_gets_the_bonus():
    batch = [outcome(-3.0, 1.0), outcome(0.6, 1.0), outcome(0.0, 1.0, "error")]
    assert Objective().bonuses(batch, None) == [0.5, 0.5, 0.0]


def test_the_bonus_is_earned_by_quality_and_not_by_speed():
    batch = [outcome(0.6, 0.1), outcome(0.61, 500.0)]
    assert Objective().bonuses(batch, 0.6) == [0.0, 0.5]


@given(st.floats(0, 5), st.floats(-5, 5), st.floats(0.1, 600), st.booleans(), st.one_of(st.none(), st.floats(-5, 5)))
def test_a_scale_of_zero_is_vanilla(rate, reward, seconds, valid, best):
    batch = [outcome(reward, seconds, "ok" if valid else "error")]
    assert rewards(Objective("rpg", price_scale=0.0), batch, rate, best) == rewards(
        Objective("vanilla"), batch, rate, best
    )


@given(st.floats(0, 2), st.floats(0, 3))
def test_the_scale_multiplies_the_price(scale, rate):
    objective = Objective("rpg", price_scale=scale)
    assert objective.price(rate) == scale * rate
    assert objective.price(RateEstimate(rate, 0.0, 0.0, 0.0, 1)) == scale * rate
    assert rewards(objective, [outcome(1.0, 7.0)], rate) == [1.0 - scale * rate * 7.0]


@given(st.floats(0, 1), st.floats(0.1, LIMIT), st.floats(0, 3))
def test_with_rewards_from_0_to_1_no_failure_is_worth_as_much_as_a_valid_attempt(reward, seconds, rate):
    good, bad = rewards(Objective(), [outcome(reward, seconds), outcome(0.0, 0.1, "error")], rate)
    assert good > bad


def test_a_config_reads_back_and_refuses_what_it_does_not_know():
    objective = Objective("vanilla", penalty=-1.0, invalid_charge="measured")
    import tomllib

    assert config.build(Objective, tomllib.loads(config.dumps(objective))) == objective
    for wrong in ({"arm": "rgp"}, {"bonus": -1.0}, {"price_scale": math.inf}, {"price": 1.0}):
        with pytest.raises(InputError):
            config.build(Objective, wrong)
    for wrong in ({"arm": "rgp"}, {"bonus": -1.0}, {"price_scale": math.nan}, {"penalty": math.inf}):
        with pytest.raises(InputError, match=f"objective.{next(iter(wrong))}"):
            dataclasses.replace(objective, **wrong)
    for rate in (-0.1, math.nan, math.inf, "1"):
        with pytest.raises(InputError, match="rate = "):
            Objective().price(rate)


# ---- the hazards


def test_hazard_failing_at_once_would_win_if_a_failure_paid_its_own_time():
    scripts = {"honest": outcome(0.9, 30.0), "crash": outcome(0.0, 0.1, "error")}
    naive = Objective(penalty=0.0, invalid_charge="measured")
    assert choice(naive, scripts, 0.04) == "crash"
    assert choice(Objective(penalty=0.0), scripts, 0.04) == "honest"
    assert choice(Objective(), scripts, 0.04) == "honest"


RAW = {"copy the sample": outcome(0.5, 0.1), "honest": outcome(0.85, 1.2)}
GAIN = {"copy the sample": outcome(0.0, 0.1, "no-gain"), "honest": outcome(0.7, 1.2)}


def test_hazard_copying_the_sample_submission_wins_when_the_raw_metric_is_priced():
    assert choice(Objective("vanilla"), RAW, 0.0) == "honest"
    assert fixed_point(RAW) == pytest.approx(5.0)
    assert choice(Objective(), RAW, fixed_point(RAW)) == "copy the sample"


def test_hazard_copying_wins_from_any_start_because_the_price_follows_it():
    """Dinkelbach by hand: greedy script -> its rate is the next price -> greedy script."""
    price = 0.0
    for _ in range(5):
        best = RAW[choice(Objective(), RAW, price)]
        price = best.reward / best.seconds
    assert choice(Objective(), RAW, price) == "copy the sample"


@given(st.floats(0, 5))
def test_no_gain_is_a_failure_so_copying_never_wins(price):
    assert choice(Objective(), GAIN, price) == "honest"


def test_hazard_over_pricing_makes_doing_nothing_optimal():
    scripts = {"junk": outcome(0.0, 0.1), "best": outcome(0.9, 1.8), "slow": outcome(1.0, 10.0)}
    price = fixed_point(scripts)
    assert price == pytest.approx(0.5)
    assert rewards(Objective(), [scripts["best"]], price)[0] == pytest.approx(0.0, abs=1e-9)
    assert choice(Objective(), scripts, price) == "best"
    assert choice(Objective(), scripts, 1.1 * price) == "junk"
    junk_fails = scripts | {"junk": outcome(0.0, 0.1, "no-gain")}
    assert choice(Objective(), junk_fails, 1.1 * price) == "best"


def test_hazard_the_charged_quantile_over_prices_by_construction():
    rng = np.random.default_rng(0)
    reward, seconds = rng.normal(0.8, 0.2, 128), np.exp(rng.normal(1.0, 0.3, 128))
    true = reward.sum() / seconds.sum()
    paid = {quantile: NIW(quantile=quantile).update(reward, seconds).rate for quantile in (0.5, 0.75, 0.95)}
    assert paid[0.5] < paid[0.75] < paid[0.95]
    assert paid[0.95] > 1.03 * true
    assert paid[0.5] == pytest.approx(true, rel=0.02)


def test_hazard_a_lagging_price_prefers_the_old_slow_script():
    """Ten steps at 8 s, ten at 2 s: running totals charge 40 % of the new rate, a window of 5 all of it."""
    paid = {}
    for window in (None, 5):
        totals = Accumulators(16, window=window)
        for step in range(20):
            totals.update([0.8] * 16, [8.0 if step < 10 else 2.0] * 16)
        paid[window] = float(Totals().update(totals.reward, totals.seconds).rate)
    assert paid[None] == pytest.approx(0.4 * paid[5])
    scripts = {"quick": outcome(0.8, 2.0), "thorough": outcome(1.0, 2.8)}
    assert choice(Objective(), scripts, paid[None]) == "thorough"
    assert choice(Objective(), scripts, paid[5]) == "quick"


def test_hazard_taking_the_first_to_finish_raises_the_price():
    """512 attempts of equal reward, lognormal seconds: the quicker half alone seems to earn far more."""
    seconds = np.sort(np.exp(np.random.default_rng(1).normal(1.0, 0.8, 512)))
    everyone, first = Totals().update(np.ones(512), seconds), Totals().update(np.ones(256), seconds[:256])
    assert first.rate > 1.6 * everyone.rate


def test_hazard_a_noisy_clock_is_a_noisy_reward():
    rng = np.random.default_rng(2)
    batch = [outcome(0.8, seconds) for seconds in rng.normal(5.0, 0.5, 400)]
    assert np.std(rewards(Objective("vanilla"), batch, 0.2)) < 1e-12
    assert np.std(rewards(Objective(), batch, 0.2)) == pytest.approx(0.2 * 0.5, rel=0.1)


def test_hazard_the_best_rate_is_not_the_best_score_and_the_scale_is_the_choice():
    scripts = {
        "naive Bayes": outcome(0.52, 1.5),
        "small MLP": outcome(0.93, 4.0),
        "word and character regression": outcome(1.00, 33.0),
    }
    price = fixed_point(scripts)
    chosen = {scale: choice(Objective(price_scale=scale), scripts, price) for scale in (0.0, 0.25, 0.5, 1.0)}
    assert chosen[0.0] == "word and character regression"
    assert (chosen[0.25], chosen[0.5], chosen[1.0]) == ("small MLP", "naive Bayes", "naive Bayes")


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), min_size=1, max_size=8),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_a_higher_price_never_chooses_a_slower_script(scripts, one, other):
    low, high = sorted((one, other))
    batch = [outcome(reward, seconds) for reward, seconds in scripts]
    picked = [batch[int(np.argmax(rewards(Objective(), batch, price)))] for price in (low, high)]
    worth = [rewards(Objective(), picked, price) for price in (low, high)]
    tie = any(abs(pair[0] - pair[1]) < 1e-9 for pair in worth)
    assert tie or picked[1].seconds <= picked[0].seconds
