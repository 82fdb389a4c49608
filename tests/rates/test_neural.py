"""The neural estimator learns which action is worth its time."""

import copy
import pickle
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rewardrate.errors import InputError, MissingExtra  # noqa: E402
from rewardrate.rates import Neural  # noqa: E402


def test_without_features_it_is_the_ratio_of_the_memory():
    estimate = Neural().update([1.0, 2.0, 3.0], [2.0, 4.0, 9.0])
    assert estimate.rate == pytest.approx(6 / 15)


def test_among_alternatives_it_charges_the_greedy_ones_rate():
    """Two actions in each state: 1.0 in 1 s (rate 1), or 1.5 in 5 s (rate 0.3). Greedy at a positive price is quick."""
    rng = np.random.default_rng(0)
    neural = Neural(features=2, memory=256, steps=100)
    for update in range(12):
        state = np.repeat(np.arange(32) + 32 * update, 2)
        slow = np.tile([False, True], 32)
        reward = np.where(slow, 1.5, 1.0) + 0.05 * rng.normal(size=64)
        seconds = np.where(slow, 5.0, 1.0) * np.exp(0.1 * rng.normal(size=64))
        estimate = neural.update(reward, seconds, features=np.column_stack([slow, ~slow]), state=state)
    assert estimate.rate == pytest.approx(1.0, rel=0.1)
    reward_hat, seconds_hat = neural.predict([[1.0, 0.0], [0.0, 1.0]])
    assert reward_hat.tolist() == pytest.approx([1.5, 1.0], abs=0.15)
    assert seconds_hat.tolist() == pytest.approx([5.0, 1.0], rel=0.2)


def test_the_memory_forgets_the_oldest():
    neural = Neural(memory=8)
    neural.update(np.zeros(8), np.ones(8))
    assert neural.update(np.ones(8), np.ones(8)).rate == pytest.approx(1.0)


def test_invalid_attempts_follow_the_rule():
    assert Neural().update([1.0, 9.0], [1.0, 1.0], [True, False]).rate == pytest.approx(0.5)
    excluded = Neural(invalid="exclude")
    assert excluded.update([1.0, 9.0], [1.0, 1.0], [True, False]).rate == pytest.approx(1.0)
    assert excluded.update([9.0], [1.0], [False]).count == 1


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"features": [[1.0, 2.0]]}, "features"),
        ({"features": [[np.nan], [1.0]]}, r"features\[0\]"),
        ({"state": [-1, 0]}, "state"),
        ({"state": [0.5, 1.0]}, "state"),
    ],
)
def test_bad_features_and_states_are_refused_and_change_nothing(extra, words):
    neural = Neural()
    neural.update([1.0, 2.0], [1.0, 2.0])
    before = neural.state_dict()
    with pytest.raises(InputError, match=words):
        neural.update([1.0, 2.0], [1.0, 2.0], **extra)
    assert neural.state_dict() == before


def test_an_update_that_overflows_is_undone():
    neural = Neural(memory=2)
    neural.update([1.0, 2.0], [1.0, 2.0])
    before = neural.state_dict()
    with pytest.raises(InputError, match="64-bit"):
        neural.update([1e300, 1e300], [1e-300, 1e-300])
    assert neural.state_dict() == before


@pytest.mark.parametrize("settings", [{"features": 0}, {"memory": 0}, {"steps": 1.5}, {"learning_rate": 0.0}])
def test_settings_are_checked(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Neural(**settings)


def test_nothing_learned_predicts_nothing():
    with pytest.raises(InputError, match="call update"):
        Neural().predict([[1.0]])


def test_without_torch_the_error_says_how_to_add_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[agent\]"):
        Neural()


def test_it_can_be_copied_and_sent_to_another_process():
    neural = Neural()
    neural.update([1.0, 2.0], [1.0, 2.0])
    for twin in (copy.deepcopy(neural), pickle.loads(pickle.dumps(neural))):
        assert twin.state_dict() == neural.state_dict()
        assert twin.update([3.0], [1.0]).count == 3


def test_an_interrupt_in_the_middle_of_an_update_leaves_no_trace(monkeypatch):
    neural = Neural()
    neural.update([1.0, 2.0], [1.0, 2.0])
    before = neural.state_dict()

    def interrupt(count):
        raise KeyboardInterrupt

    monkeypatch.setattr(neural, "_greedy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        neural.update([5.0, 6.0], [1.0, 2.0])
    assert neural.state_dict() == before


def test_one_huge_attempt_does_not_lock_it_for_ever():
    neural = Neural(memory=8)
    neural.update([1e200] * 4, [1.0] * 4)
    for _ in range(3):
        estimate = neural.update([1.0] * 4, [1.0] * 4)
    assert estimate.rate == pytest.approx(1.0)


def test_a_damaged_state_is_refused_as_a_whole():
    neural = Neural()
    neural.update([1.0, 2.0], [1.0, 2.0])
    good = neural.state_dict()
    inner = good["state"]
    memory, weights = inner["memory"], inner["weights"]
    for change in (
        {"weights": {}},
        {"weights": {**weights, "0.bias": [float("nan")] * 32}},
        {"adam": {"0": {"step": 1.0, "exp_avg": [1.0], "exp_avg_sq": [1.0]}}},
        {"memory": {**memory, "reward": [1.0]}},
        {"memory": {**memory, "seconds": [0.0, 1.0]}},
        {"memory": {**memory, "reward": [float("nan"), 1.0]}},
        {"alone": "x"},
    ):
        with pytest.raises(InputError, match="cannot be restored"):
            neural.load_state_dict({**good, "state": {**inner, **change}})
        assert neural.state_dict() == good


def test_a_state_weighs_as_much_as_it_comes():
    """Nine of ten attempts earn 1 in 1 s, the tenth 1 in 10 s, one action each: the rate is 10 / 19."""
    context = np.array([0] * 9 + [1])
    neural = Neural(features=1, memory=100, steps=300)
    for _ in range(10):
        estimate = neural.update(np.ones(10), np.where(context, 10.0, 1.0), features=context[:, None], state=context)
    assert estimate.rate == pytest.approx(10 / 19, rel=0.02)
