from rewardrate.environments import Environment, Outcome
from rewardrate.environments.outcome import Parent


def outcome(status="ok", valid=True):
    return Outcome(valid=valid, reward=1.0, score=0.9, seconds=2.0, message="", status=status, code="x")


def test_only_a_failure_of_the_sandbox_is_not_charged():
    assert outcome().charged
    assert outcome("timeout", valid=False).charged
    assert not outcome("sandbox-failure", valid=False).charged


def test_an_environment_of_somebody_else_fits_the_protocol():
    class Own:
        limit_seconds = 5.0

        def prompt(self, parent: Parent | None = None):
            return [{"role": "user", "content": "go"}]

        def execute(self, replies, on_done=None, parents=None):
            return [outcome() for _ in replies]

    assert isinstance(Own(), Environment)
    assert not isinstance(object(), Environment)
