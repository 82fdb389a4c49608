"""Both reward functions: the paper's numbers, and the order they promise."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.speedrun.rewards import RaceRewards, RewardSettings
from rewardrate.errors import InputError

PAPER = RaceRewards()
SMALL = RaceRewards(target=3.28, window=0.03, limit_seconds=180.0, settings=RewardSettings(depth_seconds=2400.0))
losses = st.floats(0, 20)
seconds = st.floats(0.1, 2000)


def test_the_numbers_of_the_paper():
    assert PAPER.earned(3.28) == pytest.approx(6.72)
    assert PAPER.earned(11.0) == 0.0
    assert PAPER.bonus(3.28) == 5.0
    assert PAPER.bonus(3.27) == pytest.approx(5 + 100 * 0.01)
    assert PAPER.bonus(3.0) == pytest.approx(5 + 100 * 0.03)
    assert PAPER.bonus(3.2801) == 0.0
    assert PAPER.vanilla(3.28, 900.0, valid=True) == -900
    assert PAPER.vanilla(3.27, 900.0, valid=True) == pytest.approx(-900 + 200)
    assert PAPER.vanilla(3.0, 900.0, valid=True) == pytest.approx(-900 + 600)
    assert PAPER.vanilla(3.29, 900.0, valid=True) == pytest.approx(-1500 - 200)
    assert PAPER.vanilla(9.0, 10.0, valid=True) == pytest.approx(-1500 - 600)
    assert PAPER.vanilla(3.0, 900.0, valid=False) == PAPER.vanilla(None, 1.0, valid=True) == -3000


@given(losses, seconds, losses, seconds, st.sampled_from([PAPER, SMALL]))
def test_vanilla_ranks_every_crossing_above_every_other_and_every_valid_above_every_invalid(a, s, b, t, race):
    first, second = race.vanilla(a, s, valid=True), race.vanilla(b, t, valid=True)
    if race.crosses(a) and not race.crosses(b):
        assert first > second
    assert min(first, second) > race.vanilla(a, s, valid=False)


@given(st.floats(3.28 - 1e-9, 3.28 + 1e-9), st.floats(3.28 - 1e-9, 3.28 + 1e-9))
def test_the_order_holds_to_the_last_bit_at_the_target(a, b):
    if PAPER.crosses(a) and not PAPER.crosses(b):
        assert PAPER.vanilla(a, 1500.0, valid=True) > PAPER.vanilla(b, 0.1, valid=True)
    above = math.nextafter(3.28, 4)
    assert PAPER.vanilla(3.28, 9e9, valid=True) > PAPER.vanilla(above, 0.1, valid=True)


@given(losses, losses, seconds)
def test_a_lower_loss_is_never_worth_less_in_either_arm(a, b, s):
    low, high = sorted((a, b))
    assert PAPER.earned(low) + PAPER.bonus(low) >= PAPER.earned(high) + PAPER.bonus(high)
    assert PAPER.vanilla(low, s, valid=True) >= PAPER.vanilla(high, s, valid=True)


@given(losses, st.floats(0, 1e4), st.floats(0, 1e4))
def test_what_the_rate_is_fitted_on_knows_no_bonus(loss, bonus, slope):
    other = RaceRewards(settings=RewardSettings(crossing_bonus=bonus, slope=slope))
    assert other.earned(loss) == PAPER.earned(loss) == max(0.0, 10.0 - loss)


def test_an_exchange_rate_that_would_let_a_failure_win_is_refused():
    with pytest.raises(InputError, match=r"rewards.depth_seconds = 20000.0: .* below the cap of 180 s; below 6000"):
        RaceRewards(limit_seconds=180.0)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_refused(loss):
    for ask in (PAPER.earned, PAPER.bonus, PAPER.depth):
        with pytest.raises(InputError, match="finite"):
            ask(loss)
