"""Limits are the paper's by default and positive by nature."""

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Limits


def test_defaults_are_the_papers():
    limits = Limits()
    assert (limits.cores, limits.memory_bytes, limits.seconds) == (2, 16 * 2**30, 600.0)


@pytest.mark.parametrize(
    "change", [{"seconds": 0}, {"seconds": float("nan")}, {"cores": 1.5}, {"memory_bytes": -1}, {"processes": True}]
)
def test_what_cannot_be_a_limit_is_refused_by_name(change):
    with pytest.raises(InputError, match=rf"limits\.{next(iter(change))}"):
        Limits(**change)
