"""PPO as a choice: recipes from before it was one are still read (its functions: test_policy_gradient.py)."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

from rewardrate.config import build, dumps  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies.algorithms import PPO  # noqa: E402
from rewardrate.policies.learner import LearnerSettings  # noqa: E402


def test_it_needs_a_critic_and_no_group():
    assert PPO.needs_critic
    assert PPO().attempts_per_prompt == 1


def test_keys_of_recipes_from_before_there_was_a_choice_are_read_as_its_own():
    old = {"clip": 0.3, "value_clip": 50.0, "discount": 0.9, "trace": 0.8, "whiten": False, "spread_floor": 0.5}
    found = build(LearnerSettings, {"critic": "shared", **old})
    assert found == LearnerSettings(critic="shared", algorithm=PPO(**old))
    assert build(LearnerSettings, {"clip": 0.3, "algorithm": {"trace": 0.5}}).algorithm == PPO(clip=0.3, trace=0.5)
    assert dumps(found).count("value_clip") == 1
    assert build(LearnerSettings, {"clip": 0.3, "algorithm": {"kind": "grpo"}}).algorithm.clip == 0.3


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"clip": 0.3, "algorithm": {"clip": 0.2}}, "learner.clip = 0.3: it stands in [learner.algorithm] now"),
        ({"clip": 0.3, "algorithm": 3}, "learner.clip = 0.3: it stands in [learner.algorithm] now"),
        (
            {"value_clip": 1.0, "algorithm": {"kind": "grpo"}},
            "learner.algorithm.value_clip = 1.0: there is no such key",
        ),
        ({"clip": -1.0}, "learner.algorithm.clip = -1.0: it must be at least 0"),
        ({"clipp": 1.0}, "learner.clipp = 1.0: there is no such key; did you mean 'clip'?"),
        ({"algorithm": {"kind": "gppo"}}, "learner.algorithm.kind = 'gppo': there is no such kind; did you mean"),
    ],
)
def test_what_does_not_fit_is_named(table, words):
    with pytest.raises(InputError) as error:
        build(LearnerSettings, table, "learner.")
    assert words in str(error.value)
