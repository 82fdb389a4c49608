"""The solution buffer against a slow, obvious one."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.attempt import Outcome
from rewardrate.errors import InputError
from rewardrate.training import Solution, SolutionBuffer
from rewardrate.training.buffer import LargeEdits


def outcome(reward, seconds=1.0, code="code", status="ok"):
    return Outcome(status == "ok", reward, reward, seconds, f"scored {reward}", status, code)


def filled(*batches, capacity=10, price=0.0, **more):
    buffer, number = SolutionBuffer(capacity, **more), 1
    for step, batch in enumerate(batches, start=1):
        buffer.absorb(batch, range(number, number + len(batch)), step, price)
        number += len(batch)
    return buffer


def numbers(buffer):
    return [solution.attempt for solution in buffer]


def test_the_best_relative_reward_comes_first_and_a_new_price_reorders_all():
    buffer = filled([outcome(1.0, 30.0, "slow"), outcome(0.5, 1.0, "quick"), outcome(0.9, 10.0, "middle")])
    assert numbers(buffer) == [1, 3, 2]
    buffer.rank(0.04)
    assert numbers(buffer) == [3, 2, 1]
    buffer.absorb([], [], 2, 0.1)
    assert numbers(buffer) == [2, 3, 1]


def test_only_valid_attempts_enter():
    batch = [outcome(0.1, code="a"), outcome(0.9, code="b", status="error"), outcome(0.9, 1, "c", "sandbox-failure")]
    assert numbers(filled(batch)) == [1]


def test_a_score_of_zero_is_valid():
    assert len(filled([outcome(0.0)])) == 1


def test_ties_go_to_the_newer_step_and_then_to_the_lower_number():
    steps = [[outcome(0.5, code=f"{step}.{row}") for row in range(3)] for step in range(4)]
    buffer = filled(*steps, capacity=100)
    assert numbers(buffer) == [10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3]


def test_identical_code_is_held_once_with_its_latest_measurement():
    buffer = filled([outcome(0.8, 1.0)], [outcome(0.8, 3.0), outcome(0.8, 2.0)])
    assert [(one.attempt, one.seconds, one.step) for one in buffer] == [(3, 2.0, 2)]
    buffer.absorb([outcome(0.2, 9.0)], [4], 3, 0.0)
    assert [(one.attempt, one.reward, one.seconds) for one in buffer] == [(4, 0.2, 9.0)]


def test_a_script_with_a_random_result_does_not_lower_the_bar_for_the_bonus():
    buffer = filled([outcome(0.9)], [outcome(0.4)])
    assert buffer.best_reward == 0.9
    assert next(iter(buffer)).reward == 0.4


def test_every_copy_is_kept_if_asked_for():
    assert numbers(filled([outcome(0.5), outcome(0.5)], [outcome(0.5)], copies="all")) == [3, 1, 2]


def test_the_lowest_keys_fall_out_at_the_price_of_that_step():
    buffer = filled([outcome(row / 10, 1.0 + row, f"{row}") for row in range(8)], capacity=3)
    assert numbers(buffer) == [8, 7, 6]
    priced = filled([outcome(row / 10, 1.0 + row, f"{row}") for row in range(8)], capacity=3, price=0.2)
    assert numbers(priced) == [1, 2, 3]
    priced.rank(0.0)
    assert numbers(priced) == [3, 2, 1]


def test_selection_cycles_from_the_top_when_there_are_too_few():
    buffer = filled([outcome(0.1, code="a"), outcome(0.3, code="b"), outcome(0.2, code="c")])
    assert [one.attempt for one in buffer.select(8)] == [2, 3, 1, 2, 3, 1, 2, 3]
    assert [one.attempt for one in buffer.select(2)] == [2, 3]
    assert SolutionBuffer(4).select(8) == []
    assert SolutionBuffer(4).best_reward is None


step_of_outcomes = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 1.0, -0.5]),
        st.sampled_from([0.1, 1.0, 2.0, 4.0]),
        st.sampled_from("abcdefgh"),
        st.sampled_from(["ok", "ok", "ok", "error", "sandbox-failure"]),
    ),
    max_size=6,
)


def slow_buffer(steps, prices, capacity, copies):
    """Everything from the beginning, by the words of the rule."""
    kept, number = [], 1
    for step, (batch, price) in enumerate(zip(steps, prices, strict=True), start=1):
        for reward, seconds, code, status in batch:
            if status == "ok":
                record = reward
                if copies == "one":
                    record = max([reward] + [old["record"] for old in kept if old["code"] == code])
                    kept = [old for old in kept if old["code"] != code]
                kept.append(
                    {
                        "attempt": number,
                        "code": code,
                        "reward": reward,
                        "seconds": seconds,
                        "step": step,
                        "record": record,
                    }
                )
            number += 1
        while True:  # bubble sort
            for i in range(len(kept) - 1):
                a, b = kept[i], kept[i + 1]
                ka, kb = (one["reward"] - price * one["seconds"] for one in (a, b))
                if ka < kb or (
                    ka == kb and (a["step"] < b["step"] or (a["step"] == b["step"] and a["attempt"] > b["attempt"]))
                ):
                    kept[i], kept[i + 1] = b, a
                    break
            else:
                break
        while len(kept) > capacity:
            kept.pop()
    return kept


@given(
    st.lists(st.tuples(step_of_outcomes, st.sampled_from([0.0, 0.125, 0.25, 0.5])), max_size=6),
    st.integers(1, 8),
    st.sampled_from(["one", "all"]),
)
def test_it_equals_the_slow_obvious_buffer(steps, capacity, copies):
    buffer, number = SolutionBuffer(capacity, copies=copies), 1
    for step, (batch, price) in enumerate(steps, start=1):
        buffer.absorb([outcome(*one) for one in batch], range(number, number + len(batch)), step, price)
        number += len(batch)
    expected = slow_buffer([batch for batch, _ in steps], [price for _, price in steps], capacity, copies)
    names = ("attempt", "code", "reward", "seconds", "step", "record")
    assert [{name: getattr(one, name) for name in names} for one in buffer] == expected
    assert buffer.best_reward == max((one["record"] for one in expected), default=None)
    restored = SolutionBuffer(capacity, copies=copies)
    restored.load_state_dict(json.loads(json.dumps(buffer.state_dict())))
    assert list(restored) == list(buffer)
    assert restored.state_dict() == buffer.state_dict()


@given(st.floats(-1e300, 1e300), st.floats(1e-3, 1e300), st.text(max_size=20))
def test_a_state_goes_through_json_bit_for_bit(reward, seconds, code):
    buffer = filled([outcome(reward, seconds, code)])
    restored = SolutionBuffer(10)
    restored.load_state_dict(json.loads(json.dumps(buffer.state_dict())))
    assert list(restored) == list(buffer)


def test_a_bad_outcome_is_refused_and_nothing_is_changed():
    buffer = filled([outcome(0.5)])
    before = buffer.state_dict()
    good = outcome(0.9, code="good")
    for batch, attempts, step, price in (
        ([good, outcome(math.nan, code="b")], [2, 3], 2, 0.0),
        ([good, outcome(0.1, 0.0, "b")], [2, 3], 2, 0.0),
        ([good], [1], 2, 0.0),
        ([good, good], [2, 2], 2, 0.0),
        ([good], [2, 3], 2, 0.0),
        ([good], [2], -1, 0.0),
        ([good], ["2"], 2, 0.0),
        ([good], [2], 2, -0.1),
        ([good], [2], 2, math.nan),
    ):
        with pytest.raises(InputError):
            buffer.absorb(batch, attempts, step, price)
        assert buffer.state_dict() == before
    for capacity, copies in ((0, "one"), (1.5, "one"), (3, "two")):
        with pytest.raises(InputError):
            SolutionBuffer(capacity, copies=copies)


def test_a_damaged_or_foreign_state_is_refused_and_nothing_is_changed():
    buffer = filled([outcome(0.5)])
    good = buffer.state_dict()
    one = good["solutions"][0]
    for state in (
        None,
        {},
        filled(capacity=11).state_dict(),
        filled(copies="all").state_dict(),
        good | {"solutions": None},
        good | {"solutions": [{}]},
        good | {"solutions": [one, one]},
        good | {"solutions": [one | {"attempt": number} for number in range(11)]},
        good | {"solutions": [one | {"seconds": -1.0}]},
        good | {"solutions": [one | {"code": None}]},
        good | {"solutions": [one | {"more": 1}]},
    ):
        with pytest.raises(InputError, match="state"):
            buffer.load_state_dict(state)
        assert buffer.state_dict() == good


def test_a_solution_knows_its_key():
    assert Solution(1, "", "", 0.9, 4.0, 1, 0.9).key(0.1) == pytest.approx(0.5)


# ---------------------------------------------------------------- the race: seeds, ranking rewards, large edits


def seed(number, reward, name, seconds=10.0):
    return Solution(-number, f"seed {name}", "fine", reward, seconds, 0, reward, seed=name)


def test_seeds_are_planted_before_the_first_step_and_have_no_attempt_number():
    buffer = SolutionBuffer(10)
    buffer.start_with([seed(1, 5.0, "a"), seed(2, 6.0, "b")])
    assert [(one.seed, one.number) for one in buffer] == [("b", None), ("a", None)]
    buffer.absorb([outcome(7.0, 10.0, "child")], [1], 1, 0.0)
    assert [one.number for one in buffer] == [1, None, None]
    with pytest.raises(InputError, match="not empty any more"):
        buffer.start_with([seed(3, 1.0, "c")])


def test_what_a_solution_is_ranked_by_need_not_be_its_reward():
    buffer = SolutionBuffer(10)
    buffer.absorb([outcome(7.0, 5.0, "a"), outcome(6.0, 5.0, "b")], [1, 2], 1, 0.0, ranking_rewards=[-900.0, -800.0])
    assert numbers(buffer) == [2, 1]
    assert buffer.best_reward == 7.0
    with pytest.raises(InputError, match="ranking_rewards"):
        buffer.absorb([outcome(1.0, 1.0, "c")], [3], 2, 0.0, ranking_rewards=[])


def test_half_of_the_slots_go_to_large_edits_and_a_solution_may_have_both():
    buffer = SolutionBuffer(10, large=LargeEdits(share=0.5, lines=20))
    parent = "\n".join(f"line {i}" for i in range(60))
    large = parent.replace("line 1", "other")  # line 1, 10 to 19: 11 lines taken away and 11 added
    small = parent.replace("line 59", "other")
    batch = [outcome(9.0, 1.0, small), outcome(5.0, 1.0, large), outcome(8.0, 1.0, small + "\n#")]
    buffer.absorb(batch, [1, 2, 3], 1, 0.0, parent_codes=[parent] * 3)
    assert [one.changed_lines for one in buffer] == [2, 3, 22]
    assert [one.attempt for one in buffer.select(4)] == [2, 2, 1, 3]
    assert [one.attempt for one in buffer.select(5)] == [2, 2, 1, 3, 2]


def test_without_large_edits_all_slots_go_to_the_best():
    buffer = filled([outcome(1.0, code="a"), outcome(2.0, code="b")], large=LargeEdits())
    assert [one.attempt for one in buffer.select(4)] == [2, 1, 2, 1]


def test_a_state_with_seeds_and_quota_comes_back_and_one_of_before_still_loads():
    first = SolutionBuffer(10, large=LargeEdits(0.5, 3))
    first.start_with([seed(1, 5.0, "a")])
    first.absorb([outcome(7.0, 10.0, "x\ny\nz\nw")], [1], 1, 0.0, ranking_rewards=[9.0], parent_codes=["q"])
    again = SolutionBuffer(10, large=LargeEdits(0.5, 3))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert list(again) == list(first)
    plain = SolutionBuffer(10)
    with pytest.raises(InputError, match=r"state\.settings"):
        plain.load_state_dict(first.state_dict())
    old = {"attempt": 3, "code": "c", "message": "", "reward": 1.0, "seconds": 2.0, "step": 1, "record": 1.0}
    plain.load_state_dict({"settings": {"capacity": 10, "copies": "one"}, "solutions": [old]})
    assert numbers(plain) == [3]
    assert plain.state_dict()["solutions"] == [old], "a buffer without a race writes what it always wrote"
