"""Natural policy gradient with a priced second."""

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.theory import npg, optimal_rate
from rewardrate.theory.npg import softmax

REWARD, SECONDS = np.array([[1.0, 1.5], [0.3, 0.9]]), np.array([[1.0, 5.0], [1.0, 2.0]])


def test_one_update_adds_the_advantage_to_the_logits():
    step = next(npg(REWARD, SECONDS, learning_rate=0.5, start=0.2))
    q = REWARD - 0.2 * SECONDS
    assert step.theta == pytest.approx(0.5 * (q - q.mean(axis=1, keepdims=True)))
    assert (step.k, step.rate, step.mean_rate) == (1, 0.2, 0.2)


def test_the_policy_ends_on_the_actions_of_the_best_rate():
    step = list(npg(REWARD, SECONDS, learning_rate=1.0, steps=400))[-1]
    assert step.mean_rate == pytest.approx(optimal_rate(REWARD, SECONDS), rel=0.01)
    assert step.policy[0, 0] > 0.99


def test_given_rates_are_used_and_end_the_run():
    steps = list(npg(REWARD, SECONDS, learning_rate=1.0, rates=[0.1, 0.3]))
    assert [step.rate for step in steps] == [0.1, 0.3]
    assert steps[-1].mean_rate == pytest.approx(0.2)


def test_softmax_survives_large_logits():
    assert softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": 1.0, "theta": [[1.0]]}, "theta"),
        ({"learning_rate": 1.0, "steps": 0}, "steps"),
        ({"learning_rate": 1.0, "start": np.inf}, "start"),
    ],
)
def test_arguments_are_checked_at_once(arguments, words):
    with pytest.raises(InputError, match=words):
        npg(REWARD, SECONDS, **arguments)


def test_a_bad_given_rate_is_named():
    with pytest.raises(InputError, match=r"rates\[1\]"):
        list(npg(REWARD, SECONDS, learning_rate=1.0, rates=[0.1, np.nan]))
