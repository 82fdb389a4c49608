"""A verdict is frozen and says who answers for it."""

import dataclasses
import typing

import pytest

from rewardrate.environments.speedrun.verdict import Status, Verdict


@pytest.mark.parametrize("status", typing.get_args(Status))
def test_only_infrastructure_is_not_charged(status):
    verdict = Verdict(status, False, None, None, False, 1.0, 0, "words")
    assert verdict.charged is (status != "infrastructure")
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.valid = True
