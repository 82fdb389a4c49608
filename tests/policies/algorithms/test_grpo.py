"""GRPO by hand, and its groups."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

import algorithm_batches  # noqa: E402
from rewardrate.policies.algorithms.grpo import GRPO  # noqa: E402

REWARDS, GROUPS = [1.0, 3.0, -10.0, 2.0, 5.0], [0, 0, 1, 1, 2]


def test_it_needs_groups_and_no_critic():
    assert not GRPO.needs_critic
    assert GRPO(attempts=3).attempts_per_prompt == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epsilon": 0.0}, [-(0.5**0.5), 0.5**0.5, -(0.5**0.5), 0.5**0.5, 0.0]),
        ({"epsilon": 2**0.5}, [-1 / 8**0.5, 1 / 8**0.5, -6 / (72**0.5 + 2**0.5), 6 / (72**0.5 + 2**0.5), 0.0]),
        ({"scale": "none"}, [-1.0, 1.0, -6.0, 6.0, 0.0]),
    ],
)
def test_the_advantage_by_hand_and_a_row_whose_group_failed_on_our_side_stays_where_it_is(settings, expected):
    batch, _ = algorithm_batches.batch(REWARDS, GROUPS)
    advantages, _ = GRPO(**settings).advantages(batch)
    for row, value in enumerate(expected):
        torch.testing.assert_close(
            advantages[row][batch.mask[row]], torch.full_like(advantages[row], value)[batch.mask[row]]
        )
        assert not advantages[row][~batch.mask[row]].any()


def test_the_loss_is_the_clipped_surrogate_and_the_price_of_going_away():
    batch, logprobs = algorithm_batches.batch(REWARDS, GROUPS, kl_coefficient=0.1)
    batch.advantages, _ = GRPO().advantages(batch)
    loss = GRPO(mean="rows").loss(batch, logprobs, batch.old_values)
    assert (loss.mean, loss.value) == ("rows", None)
    for b, t in batch.mask.nonzero().tolist():
        ratio = float((logprobs[b, t] - batch.old_logprobs[b, t]).exp())
        gain = float(batch.advantages[b, t])
        away = float(batch.reference_logprobs[b, t] - logprobs[b, t])
        surrogate = -min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain)
        expected = surrogate + 0.1 * (2.718281828459045**away - away - 1)
        assert float(loss.policy[b, t]) == pytest.approx(expected, abs=1e-12)
