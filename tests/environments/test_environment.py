import pytest

from rewardrate.attempt import Outcome
from rewardrate.environments import Environment, measured
from rewardrate.sandbox import Result


def outcome(reward):
    return Outcome(valid=True, reward=reward, score=0.9, seconds=2.0, message="", status="ok", code="x")


class Own(Environment):
    limit_seconds = 5.0

    def prompt(self, parent=None):
        return [{"role": "user", "content": "go"}]

    def stream(self, replies, parents=None):
        for index in reversed(range(len(replies))):
            yield index, outcome(float(replies[index]))


def test_an_environment_of_somebody_else_needs_three_things_and_has_defaults_for_the_rest(tmp_path):
    own = Own()
    found = own.execute(["1", "2", "3"])
    assert [one.reward for one in found] == [1.0, 2.0, 3.0]
    assert own.base_code is None
    assert own.ranking_reward(found[1], priced=True) == 2.0
    assert own.extra_reward(found[1], priced=False) == 0.0
    assert own.vanilla_reward(found[1]) is None
    assert own.known_solutions(tmp_path) == []
    assert own.final_evaluation("x") is None


def test_one_that_lacks_a_thing_cannot_be_made():
    class Half(Environment):
        limit_seconds = 5.0

    with pytest.raises(TypeError, match="abstract"):
        Half()


@pytest.mark.parametrize("status", ["error", "timeout", "sandbox-failure"])
def test_what_the_sandbox_measured_is_an_outcome_that_is_not_valid(status):
    found = measured(Result(status, 0.01, 0.02, 7, "", "Traceback\nNameError: x\n", {}), "x")
    assert (found.valid, found.reward, found.seconds, found.wall_seconds) == (False, 0.0, 0.1, 0.01)
    assert (found.status, found.message, found.code) == (status, "NameError: x", "x")
    assert found.charged == (status != "sandbox-failure")
