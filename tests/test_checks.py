"""Settings are checked by kind and range, and named when wrong."""

from fractions import Fraction

import numpy as np
import pytest

from rewardrate.checks import at_least, finite, state_numbers
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Fixed, Neural


def test_whole_numbers_of_any_make_are_taken_and_become_plain():
    assert type(at_least("n", np.int64(3), 1)) is int
    assert NIW(seed=np.int64(3)).settings()["seed"] == 3
    assert Accumulators(np.int32(2), window=np.int64(3)).state_dict()["settings"]["window"] == 3


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, [1]])
def test_anything_else_is_refused(value):
    with pytest.raises(InputError, match=r"n = .*: it must be a whole number, at least 1"):
        at_least("n", value, 1)


def test_real_numbers_of_any_make_are_taken():
    assert finite("x", Fraction(1, 2), lambda x: x > 0, "be positive") == 0.5
    assert finite("x", np.float32(0.5), lambda x: x > 0, "be positive") == 0.5


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 10**400, "1", None, True, [1.0]])
def test_what_is_no_number_or_out_of_range_is_refused(value):
    with pytest.raises(InputError, match=r"x = .*: it must be positive"):
        finite("x", value, lambda x: x > 0, "be positive")


def test_a_state_must_hold_exactly_its_numbers():
    assert state_numbers({"a": 1, "b": -2.0}, ("a", "b"), ("a",)) == {"a": 1.0, "b": -2.0}
    for state in ({"a": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}, {"a": -1.0, "b": 1.0}, {"a": "x", "b": 1.0}):
        with pytest.raises(ValueError, match=r"\w"):
            state_numbers(state, ("a", "b"), ("a",))


@pytest.mark.parametrize(
    "call",
    [
        lambda: NIW(forgetting="x"),
        lambda: NIW(mu0=(1,)),
        lambda: NIW(mu0=(float("nan"), 0)),
        lambda: NIW(mu0=(1, 2, 3)),
        lambda: NIW(batches=True),
        lambda: NIW(dof_floor=float("inf")),
        lambda: Fixed(None),
        lambda: Accumulators(None),
        lambda: Neural(seed=-1),
        lambda: Accumulators(2).feed(1.0, 1.0, step="a"),
    ],
)
def test_constructors_answer_with_input_errors(call):
    with pytest.raises(InputError):
        call()
