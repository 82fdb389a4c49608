"""RLOO by hand: the others are the baseline, a reply is one action."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

import algorithm_batches  # noqa: E402
from rewardrate.policies import policy_gradient as pg  # noqa: E402
from rewardrate.policies.algorithms.rloo import RLOO  # noqa: E402

REWARDS, GROUPS = [1.0, 3.0, -10.0, 2.0, 5.0, 4.0], [0, 0, 1, 0, 1, 2]


def test_it_needs_groups_and_no_critic():
    assert not RLOO.needs_critic
    assert RLOO(attempts=3).attempts_per_prompt == 3


def test_the_advantage_is_the_reward_less_the_mean_of_the_others_and_a_row_without_others_has_none():
    batch, _ = algorithm_batches.batch(REWARDS, GROUPS)
    advantages, _ = RLOO().advantages(batch)
    expected = [1 - 2.5, 3 - 1.5, -15.0, 2 - 2.0, 15.0, 0.0]
    assert advantages[:, 0].tolist() == pytest.approx(expected)
    assert torch.equal(advantages, advantages[:, :1] * batch.mask)


def test_distance_to_the_reference_is_paid_in_the_reward_of_the_reply():
    batch, _ = algorithm_batches.batch(REWARDS, GROUPS, kl_coefficient=0.5)
    paid = 0.5 * ((batch.old_logprobs - batch.reference_logprobs) * batch.mask).sum(1)
    free, _ = algorithm_batches.batch((torch.tensor(REWARDS, dtype=torch.float64) - paid).tolist(), GROUPS)
    torch.testing.assert_close(RLOO().advantages(batch)[0], RLOO().advantages(free)[0])


def test_the_ratio_is_that_of_the_whole_reply_and_the_mean_is_over_replies():
    batch, logprobs = algorithm_batches.batch(REWARDS, GROUPS)
    batch.advantages, _ = RLOO().advantages(batch)
    loss = RLOO().loss(batch, logprobs, batch.old_values)
    expected = []
    for b, gain in enumerate(batch.advantages[:, 0].tolist()):
        ratio = float(((logprobs - batch.old_logprobs) * batch.mask)[b].sum().exp())
        expected.append(-min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain))
    assert loss.mean == "rows"
    assert float(pg.mean_over_rows(loss.policy, batch.mask, 6)) == pytest.approx(sum(expected) / 6)


def test_at_ratio_one_the_gradient_is_reinforce():
    batch, _ = algorithm_batches.batch(REWARDS, GROUPS)
    batch.advantages, _ = RLOO().advantages(batch)
    point = batch.old_logprobs.clone().requires_grad_()
    pg.mean_over_rows(RLOO().loss(batch, point, batch.old_values).policy, batch.mask, 6).backward()
    torch.testing.assert_close(point.grad, -batch.advantages / 6)
