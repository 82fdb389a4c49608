"""Running totals per chain: the agent's rows and the bandit's slots."""

import json

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Totals


def test_totals_run_from_the_first_step():
    chains = Accumulators(2)
    chains.update([1.0, 2.0], [10.0, 20.0]).update([3.0, 4.0], [1.0, 2.0])
    assert chains.reward.tolist() == [4.0, 6.0]
    assert chains.seconds.tolist() == [11.0, 22.0]


def test_a_window_holds_the_last_steps_alone():
    chains = Accumulators(1, window=2)
    for value in (1.0, 2.0, 3.0, 4.0):
        chains.update([value], [10 * value])
    assert (chains.reward[0], chains.seconds[0]) == (7.0, 70.0)


def test_an_invalid_attempt_adds_no_reward_but_its_time_or_nothing_at_all():
    zero = Accumulators(2).update([5.0, 5.0], [1.0, 2.0], [True, False])
    assert (zero.reward.tolist(), zero.seconds.tolist()) == ([5.0, 0.0], [1.0, 2.0])
    left_out = Accumulators(2, invalid="exclude").update([5.0, 5.0], [1.0, 2.0], [True, False])
    assert (left_out.reward.tolist(), left_out.seconds.tolist()) == ([5.0, 0.0], [1.0, 0.0])
    assert left_out.fit(Totals()).count == 1


def test_an_estimator_gets_the_rows_it_expects():
    chains, niw, totals = Accumulators(3), NIW(), Totals()
    for _ in range(2):
        chains.update([1.0, 1.0, 1.0], [2.0, 3.0, 4.0])
        chains.fit(niw)
        chains.fit(totals)
    direct = NIW()
    direct.update([1.0, 1.0, 1.0], [2.0, 3.0, 4.0])
    direct.update([2.0, 2.0, 2.0], [4.0, 6.0, 8.0])
    assert niw.estimate == direct.estimate
    assert totals.estimate.rate == pytest.approx(6 / 18)
    assert totals.estimate.count == 6


def test_attempts_pile_up_until_they_are_fitted():
    chains, totals = Accumulators(4), Totals()
    for step in range(3):
        chains.feed(1.0, 2.0, step=step)
    assert chains.fit(totals).count == 3
    chains.feed(1.0, 2.0, step=3)
    assert chains.fit(totals).count == 4
    assert Accumulators(2).fit(Totals()).count == 0


def test_slots_are_fed_round_robin_and_only_by_greedy_samples():
    slots = Accumulators(3, age=100)
    assert slots.feed(1.0, 1.0, step=1)
    assert not slots.feed(9.0, 9.0, step=2, greedy=False)
    assert slots.feed(2.0, 1.0, step=3)
    assert slots.feed(3.0, 1.0, step=4)
    assert slots.feed(4.0, 1.0, step=5)
    assert slots.reward.tolist() == [5.0, 2.0, 3.0]
    assert not Accumulators(1, invalid="exclude").feed(1.0, 1.0, step=1, valid=False)


def test_a_slot_older_than_its_age_restarts_from_zero_at_its_next_turn():
    slots = Accumulators(1, age=10)
    slots.feed(1.0, 1.0, step=5)
    slots.feed(1.0, 1.0, step=15)  # ten steps old: not yet older
    assert slots.reward[0] == 2.0
    slots.feed(7.0, 1.0, step=16)
    assert slots.reward[0] == 7.0
    slots.feed(1.0, 1.0, step=26)  # born again at 16
    assert slots.reward[0] == 8.0


def test_empty_slots_are_left_out_of_the_fit():
    slots, niw = Accumulators(8), NIW()
    slots.feed(1.0, 2.0, step=1)
    assert slots.fit(niw).count == 0  # one row is too few
    slots.feed(1.0, 3.0, step=2)
    assert slots.fit(niw).count == 2


@pytest.mark.parametrize("settings", [{}, {"window": 3}])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(settings):
    rng = np.random.default_rng(0)
    straight, resumed = Accumulators(4, **settings), Accumulators(4, **settings)
    one, two = Totals(), Totals()
    for _ in range(7):
        rows = rng.uniform(1, 2, 4), rng.uniform(1, 2, 4)
        straight.update(*rows)
        resumed.update(*rows)
        text = json.dumps(resumed.state_dict(), allow_nan=False)
        resumed = Accumulators(4, **settings)
        resumed.load_state_dict(json.loads(text))
        assert straight.fit(one) == resumed.fit(two)
    assert straight.state_dict() == resumed.state_dict()


def test_slots_resume_too():
    slots = Accumulators(3, age=4)
    for step in range(8):
        slots.feed(1.0, 1.0, step=step)
    again = Accumulators(3, age=4)
    again.load_state_dict(json.loads(json.dumps(slots.state_dict())))
    for step in range(8, 20):
        slots.feed(1.0, 1.0, step=step)
        again.feed(1.0, 1.0, step=step)
    assert again.state_dict() == slots.state_dict()


def test_bad_rows_add_nothing():
    chains = Accumulators(2).update([1.0, 1.0], [1.0, 1.0])
    before = chains.state_dict()
    for rows in [([1.0], [1.0]), ([1.0, np.nan], [1.0, 1.0]), ([1.0, 1.0], [1.0, -1.0])]:
        with pytest.raises(InputError):
            chains.update(*rows)
    with pytest.raises(InputError):
        chains.feed(1.0, 0.0, step=1)
    assert chains.state_dict() == before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chains": 0}, "chains = 0"),
        ({"chains": 2, "window": 0}, "window = 0"),
        ({"chains": 2, "age": 1.5}, "age = 1.5"),
        ({"chains": 2, "age": 3, "window": 3}, "give one of them"),
        ({"chains": 2, "invalid": "none"}, "invalid"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        Accumulators(**settings)


def test_windows_and_ages_are_not_mixed_up():
    with pytest.raises(InputError, match="use feed"):
        Accumulators(1, age=3).update([1.0], [1.0])
    with pytest.raises(InputError, match="use update"):
        Accumulators(1, window=3).feed(1.0, 1.0, step=1)


def test_a_foreign_or_broken_state_is_refused():
    chains = Accumulators(2)
    good = chains.state_dict()
    broken = {key: value for key, value in good.items() if key != "turn"}
    short = {**good, "reward": [1.0]}
    for state, words in [(Accumulators(3).state_dict(), "settings"), (broken, "turn"), (short, "2 finite numbers")]:
        with pytest.raises(InputError, match=words):
            chains.load_state_dict(state)
    assert chains.state_dict() == good


def test_a_reused_buffer_does_not_change_the_past():
    buffer, chains = np.empty(2), Accumulators(2, window=3)
    for k in range(3):
        buffer[:] = 10.0**k
        chains.update([1.0, 1.0], buffer)
    assert chains.seconds.tolist() == [111.0, 111.0]


@pytest.mark.parametrize("settings", [{}, {"window": 2}])
def test_totals_that_would_overflow_are_refused(settings):
    chains = Accumulators(2, **settings).update([1.0, 1.0], [1e308, 1.0])
    before = chains.state_dict()
    with pytest.raises(InputError, match="64-bit"):
        chains.update([1.0, 1.0], [1e308, 1.0])
    assert chains.state_dict() == before
    slots = Accumulators(1)
    slots.feed(1e308, 1.0, step=1)
    with pytest.raises(InputError, match="64-bit"):
        slots.feed(1e308, 1.0, step=2)
    assert slots.reward.tolist() == [1e308]


def test_attempts_that_an_estimator_refused_are_not_lost():
    chains = Accumulators(2).update([1e200, 1.0], [1.0, 1.0])
    with pytest.raises(InputError):
        chains.fit(Totals())
    chains.update([1.0, 1.0], [1.0, 1.0])
    assert len(chains.state_dict()["fresh"]) == 2


@pytest.mark.parametrize("state", [None, [], "x", {}])
def test_what_is_no_state_is_refused(state):
    with pytest.raises(InputError, match="settings"):
        Accumulators(2).load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        {"turn": 99},
        {"turn": -1},
        {"recent": [[[1.0], [1.0]]]},
        {"reward": [float("nan"), 1.0]},
        {"seconds": [-1.0, 1.0]},
        {"reward": [10**400, 1]},
    ],
)
def test_a_damaged_state_is_refused(change):
    chains = Accumulators(2)
    with pytest.raises(InputError, match="cannot be restored"):
        chains.load_state_dict(chains.state_dict() | change)


def test_a_fitted_attempt_is_not_fitted_again_after_one_that_was_passed_over():
    slots, totals = Accumulators(4), Totals()
    slots.feed(1.0, 2.0, step=1)
    assert slots.fit(totals).count == 1
    slots.feed(9.0, 9.0, step=2, greedy=False)
    assert slots.fit(totals).count == 1


def test_a_chain_without_an_attempt_is_left_as_it_was():
    chains = Accumulators(3)
    chains.update([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    chains.update([1.0, float("nan"), 3.0], [1.0, 0.0, 1.0], present=[True, False, True])
    assert chains.reward.tolist() == [2.0, 2.0, 6.0]
    assert chains.seconds.tolist() == [2.0, 1.0, 2.0]
    with pytest.raises(InputError):
        chains.update([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], present=[True])


def test_rows_of_any_chains_are_added_to_theirs_and_a_call_without_rows_changes_nothing():
    chains = Accumulators(3, window=2).add([2, 0, 2], [1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [True, False, True])
    assert (chains.reward.tolist(), chains.seconds.tolist()) == ([0.0, 0.0, 4.0], [2.0, 0.0, 5.0])
    before = chains.state_dict()
    assert chains.add([], [], []).state_dict() == before
    chains.add([1], [1.0], [1.0]).add([1], [1.0], [1.0])
    assert (chains.reward.tolist(), chains.seconds.tolist()) == ([0.0, 2.0, 0.0], [0.0, 2.0, 0.0])
    assert chains.fit(Totals()).count == 5


@pytest.mark.parametrize("chain", [[3], [-1], [0.5], [[0]], [0, 1]])
def test_a_row_of_no_chain_is_refused(chain):
    chains = Accumulators(3)
    with pytest.raises(InputError, match=r"chain|reward"):
        chains.add(chain, [1.0], [1.0])
    assert chains.seconds.tolist() == [0.0, 0.0, 0.0]


def test_one_chain_cannot_show_how_chains_differ_and_is_refused_with_what_to_do():
    chains = Accumulators(1).update([0.8], [3.0])
    with pytest.raises(InputError, match=r"chains = 1.*several chains.*Totals"):
        chains.fit(NIW())
    assert chains.fit(Totals()).mean == pytest.approx(0.8 / 3)
