"""The base classes are light, and their parts do what they say."""

import subprocess
import sys

import pytest

from rewardrate.attempt import Proposal
from rewardrate.policies.policy import Policy, PolicySettings


def test_proposal_and_protocol_load_without_torch():
    code = (
        "import sys\nfrom rewardrate.policies import EndpointPolicy, Policy, Proposal\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Echo(Policy):
    name, trainable = "echo", False

    def propose(self, prompts, seed, first=0):
        return [Proposal(prompt[-1]["content"]) for prompt in prompts]

    def learn(self, proposals, rewards):
        return {}

    def count(self, text):
        return len(text.split())

    def save(self, folder):
        pass

    def load(self, folder):
        pass


def test_a_policy_has_five_verbs_and_two_facts_and_plain_defaults_for_the_rest(tmp_path):
    policy = Echo()
    policy.keep_replies(tmp_path / "replies.jsonl")
    assert (policy.engine, policy.take_cores(8), list(tmp_path.iterdir())) == ("", 0, [])

    class Half(Policy):
        name, trainable = "half", False

    with pytest.raises(TypeError, match="abstract"):
        Half()


def test_the_settings_of_a_policy_are_a_kind_and_make_and_plain_defaults():
    class EchoSettings(PolicySettings):
        kind = "echo"

        def make(self, seed):
            return Echo()

    settings = EchoSettings()
    assert (settings.label, settings.attempts_per_prompt, settings.weights) == ("echo", 1, "")
    assert settings.for_stream() is settings
    settings.check_weights("any")
    settings.check_device()


def test_an_unknown_name_of_the_room_is_an_attribute_error():
    import rewardrate.policies as room

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = room.nonsense
