"""A verdict is an outcome: frozen, with the status words of every attempt, and the losses that a race knows of."""

import dataclasses

import pytest

from rewardrate.attempt import Outcome
from rewardrate.environments.speedrun.verdict import Verdict


@pytest.mark.parametrize("status", ["ok", "error", "reevaluation-mismatch", "sandbox-failure"])
def test_only_a_failure_of_the_sandbox_is_not_charged(status):
    verdict = Verdict(False, 0.0, None, 1.0, "words", status, "", printed_loss=3.2)
    assert isinstance(verdict, Outcome)
    assert verdict.charged is (status != "sandbox-failure")
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.valid = True
