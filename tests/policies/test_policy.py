"""The protocol is light, and its parts do what they say."""

import subprocess
import sys

import pytest

from rewardrate.attempt import Proposal
from rewardrate.policies.policy import Policy


def test_proposal_and_protocol_load_without_torch():
    code = (
        "import sys\nfrom rewardrate.policies import EndpointPolicy, Policy, Proposal\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_object_with_the_six_verbs_is_a_policy_and_one_without_learn_is_not():
    class Echo:
        name, trainable = "echo", False

        def propose(self, prompts, seed):
            return [Proposal(prompt[-1]["content"]) for prompt in prompts]

        def learn(self, proposals, rewards):
            return {}

        def count(self, text):
            return len(text.split())

        def save(self, folder):
            pass

        def load(self, folder):
            pass

    assert isinstance(Echo(), Policy)
    assert not isinstance(object(), Policy)


def test_an_unknown_name_of_the_room_is_an_attribute_error():
    import rewardrate.policies as room

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = room.nonsense
