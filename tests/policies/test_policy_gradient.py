"""Each function of PPO against numbers worked out by hand, a slow obvious version, and finite differences."""

import math

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from rewardrate.policies import policy_gradient as pg  # noqa: E402

WHOLE = torch.tensor([[True, True, True]])


def rows(*values):
    return torch.tensor([values], dtype=torch.float64)


def policy_loss(logprobs, old, advantages, mask, clip=0.2):
    """Mean over tokens as the learner takes it, and how often the clip is active."""
    loss, clipped = pg.surrogate(pg.log_ratio(logprobs, old, mask), advantages, clip)
    return pg.masked_sum(loss, mask) / mask.sum(), pg.masked_sum(clipped, mask)


def value_loss(values, old, returns, mask, clip=0.5):
    loss, clipped = pg.value_error(values, old, returns, mask, clip)
    return pg.masked_sum(loss, mask) / mask.sum(), pg.masked_sum(clipped, mask)


def random_case(seed, B=3, R=5):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, R + 1, (B,), generator=generator)
    mask = torch.arange(R) < lengths.unsqueeze(1)
    draw = lambda: torch.randn(B, R, generator=generator, dtype=torch.float64)
    return mask, draw


def test_gae_by_hand_with_discount_and_trace_below_one():
    # delta = (1 + .5*3 - 2, 0 + .5*1 - 3, 4 - 1) = (.5, -2.5, 3); A = (.5 + .25*(-1.75), -2.5 + .25*3, 3)
    advantages, returns = pg.gae(rows(1, 0, 4), rows(2, 3, 1), WHOLE, discount=0.5, trace=0.5)
    assert advantages.tolist() == [[0.0625, -1.75, 3.0]]
    assert returns.tolist() == [[2.0625, 1.25, 4.0]]


def test_with_discount_and_trace_one_the_advantage_is_the_reward_to_come_minus_the_value():
    advantages, returns = pg.gae(rows(1, 0, 4), rows(2, 3, 1), WHOLE)
    assert advantages.tolist() == [[3.0, 1.0, 3.0]]
    assert returns.tolist() == [[5.0, 4.0, 4.0]]


def test_gae_ignores_whatever_stands_on_padding():
    mask = torch.tensor([[True, True, False, False]])
    nonsense = float("nan")
    advantages, returns = pg.gae(rows(1, 2, 9, nonsense), rows(0.5, 0.25, 7, nonsense), mask)
    assert advantages.tolist() == [[2.5, 1.75, 0.0, 0.0]]
    assert returns.tolist() == [[3.0, 2.0, 0.0, 0.0]]


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_gae_equals_the_double_sum_of_its_definition(seed, discount, trace):
    mask, draw = random_case(seed)
    rewards, values = draw(), draw()
    advantages, _ = pg.gae(rewards, values, mask, discount, trace)
    for b in range(mask.shape[0]):
        n = int(mask[b].sum())
        V = [*values[b, :n].tolist(), 0.0]
        delta = [float(rewards[b, t]) + discount * V[t + 1] - V[t] for t in range(n)]
        for t in range(n):
            expected = sum((discount * trace) ** (k - t) * delta[k] for k in range(t, n))
            assert float(advantages[b, t]) == pytest.approx(expected, abs=1e-12)


def test_the_reward_stands_on_the_last_token_and_the_log_ratio_is_paid_on_every_token():
    mask = torch.tensor([[True, True, False], [True, True, True]])
    logprobs = torch.tensor([[-1.0, -2.0, -50.0], [-1.0, -1.0, -1.0]])
    reference = torch.tensor([[-2.0, -2.5, 0.0], [-1.0, -1.0, -3.0]])
    rewards = pg.token_rewards(torch.tensor([10.0, -4.0]), logprobs, reference, 0.1, mask)
    torch.testing.assert_close(rewards, torch.tensor([[-0.1, 9.95, 0.0], [0.0, 0.0, -4.2]]))


def test_whitened_advantages_have_mean_zero_and_variance_one_over_all_tokens_of_the_batch():
    mask = torch.tensor([[True, True, True], [True, False, False]])
    values = torch.tensor([[1.0, 2.0, 3.0], [6.0, 1e9, float("nan")]])  # mean 3, variance 14/3
    expected = (torch.tensor([1.0, 2.0, 3.0, 6.0]) - 3) / math.sqrt(14 / 3)
    white = pg.whiten(values, mask)
    torch.testing.assert_close(white[mask], expected)
    assert white[~mask].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [-10.0, 0.1, 1e6])
def test_equal_advantages_whiten_to_nothing_and_not_to_amplified_rounding(value):
    white = pg.whiten(torch.full((7, 13), value), torch.ones(7, 13, dtype=torch.bool))
    assert white.abs().max() < 1e-4
    assert pg.whiten(torch.tensor([[value]]), torch.tensor([[True]])).tolist() == [[0.0]]


def test_hazard_a_batch_that_earns_alike_has_its_critics_errors_blown_up_unless_the_spread_has_a_floor():
    """All rows earn 1.5; the critic is off by -0.01 at the first token and by +0.01 at the second."""
    advantages = torch.tensor([[0.01, -0.01]] * 8)
    mask = torch.ones(8, 2, dtype=torch.bool)
    assert pg.whiten(advantages, mask).abs().min() > 0.9
    torch.testing.assert_close(pg.whiten(advantages, mask, floor=0.5), advantages / 0.5)
    wide = 10 * advantages / advantages.std()
    assert torch.equal(pg.whiten(wide, mask, floor=0.5), pg.whiten(wide, mask))


def test_policy_loss_by_hand_clips_only_what_went_too_far_in_the_profitable_direction():
    ratio = torch.tensor([[1.5, 0.5, 1.5, 0.5, 1.1]], dtype=torch.float64)
    advantages = torch.tensor([[2.0, 2.0, -2.0, -2.0, 1.0]], dtype=torch.float64)
    mask = torch.ones(1, 5, dtype=torch.bool)
    loss, clipped = policy_loss(ratio.log(), torch.zeros_like(ratio), advantages, mask)
    # max(-3, -2.4), max(-1, -1.6), max(3, 2.4), max(1, 1.6), -1.1
    assert float(loss) == pytest.approx((-2.4 - 1.0 + 3.0 + 1.6 - 1.1) / 5)
    assert int(clipped) == 2


def test_importance_weights_by_hand_are_cut_above_and_those_of_whole_replies_are_products():
    moved = torch.tensor([[math.log(3), math.log(0.5), 0.0], [-math.inf, 0.0, 0.0]])
    weights, cut = pg.importance_weights(moved, 2.0)
    torch.testing.assert_close(weights, torch.tensor([[2.0, 0.5, 1.0], [0.0, 1.0, 1.0]]))
    assert cut.tolist() == [[True, False, False], [False] * 3]
    weights, cut = pg.importance_weights(moved, 2.0, whole_replies=True)
    torch.testing.assert_close(weights, torch.tensor([[1.5] * 3, [0.0] * 3]))
    assert not cut.any()
    assert pg.importance_weights(torch.tensor([[1e4]]), 2.0)[0].tolist() == [[2.0]]


def test_value_loss_by_hand_takes_the_worse_of_plain_and_clipped():
    values, old, returns = rows(2.0, 0.2, -1.0), rows(0.0, 0.0, 0.0), rows(3.0, 1.0, 1.0)
    loss, clipped = value_loss(values, old, returns, WHOLE)
    # max(1, 6.25), max(.64, .64), max(4, 2.25)
    assert float(loss) == pytest.approx(0.5 * (6.25 + 0.64 + 4.0) / 3)
    assert int(clipped) == 1


def test_the_estimate_of_kl_by_hand_is_never_negative_and_a_mean_over_rows_weighs_short_replies_as_long_ones():
    mask = torch.tensor([[True, True], [True, False]])
    logprobs, reference = torch.tensor([[-1.0, -2.0], [-3.0, 9.0]]), torch.tensor([[-1.0, -1.0], [-5.0, 9.0]])
    kl = pg.kl_estimate(logprobs, reference, mask)
    torch.testing.assert_close(kl, torch.tensor([[0.0, math.e - 2], [math.exp(-2) + 1, 0.0]]))
    expected = ((math.e - 2) / 2 + math.exp(-2) + 1) / 2
    assert float(pg.mean_over_rows(kl, mask, 2)) == pytest.approx(expected, rel=1e-6)


def test_log_probabilities_and_entropy_are_those_of_the_temperature_scaled_distribution():
    logits = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    tokens = torch.tensor([2, 1])
    weights = [math.exp(x / 0.5) for x in (1.0, 2.0, 4.0)]
    share = [w / sum(weights) for w in weights]
    torch.testing.assert_close(pg.token_logprobs(logits, tokens, 0.5), torch.tensor([math.log(share[2]), -math.log(3)]))
    expected = torch.tensor([-sum(p * math.log(p) for p in share), math.log(3)])
    torch.testing.assert_close(pg.entropy(logits, 0.5), expected)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_the_chunk_size_changes_no_log_probability(chunk):
    logits, tokens = torch.randn(3, 5, 11), torch.randint(0, 11, (3, 5))
    expected = (logits / 0.7).log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(pg.token_logprobs(logits, tokens, 0.7, chunk), expected)


def test_half_precision_logits_are_scored_in_float32():
    logits = torch.randn(4, 9).to(torch.bfloat16)
    assert pg.token_logprobs(logits, torch.zeros(4, dtype=torch.long)).dtype == torch.float32
    assert pg.entropy(logits).dtype == torch.float32


def losses(name, mask, draw):
    """A function of one float64 matrix for each term of the loss, at a point away from its kinks."""
    other, target = draw(), draw()
    tokens = int(mask.sum())
    if name == "policy":
        return lambda x: policy_loss(x, x.detach() * 0 + other, target, mask)[0]
    if name == "value":
        return lambda x: value_loss(x, other, target, mask)[0]
    if name == "kl":
        return lambda x: pg.mean_over_rows(pg.kl_estimate(x, other, mask), mask, mask.shape[0])
    return lambda x: pg.entropy_bonus(x * x, mask, 0.01, tokens)


@pytest.mark.parametrize("name", ["policy", "value", "kl", "bonus"])
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_each_term_equals_finite_differences(name, seed):
    mask, draw = random_case(seed)
    loss = losses(name, mask, draw)
    assert torch.autograd.gradcheck(loss, (draw().requires_grad_(),), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_the_gradients_of_log_probability_and_entropy_equal_finite_differences(temperature):
    logits = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([0, 3, 6, 2])
    assert torch.autograd.gradcheck(lambda x: pg.token_logprobs(x, tokens, temperature, chunk=3), (logits,))
    assert torch.autograd.gradcheck(lambda x: pg.entropy(x, temperature), (logits,))


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_the_two_scores_in_one_are_the_two_scores_with_their_gradients(temperature):
    logits = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    tokens, weights = torch.tensor([0, 3, 6, 2]), torch.randn(2, 4, dtype=torch.float64)
    apart = pg.token_logprobs(logits, tokens, temperature), pg.entropy(logits, temperature)
    together = pg.scores(logits, tokens, temperature)
    for one, other in zip(apart, together, strict=True):
        torch.testing.assert_close(one, other, atol=1e-14, rtol=0)
    slopes = [torch.autograd.grad((torch.stack(pair) * weights).sum(), logits)[0] for pair in (apart, together)]
    torch.testing.assert_close(*slopes, atol=1e-14, rtol=0)
    assert torch.autograd.gradcheck(lambda x: pg.scores(x, tokens, temperature), (logits,))


def test_half_precision_logits_get_their_gradient_in_their_own_precision():
    logits = torch.randn(4, 9).to(torch.bfloat16).requires_grad_()
    scored = pg.scores(logits, torch.zeros(4, dtype=torch.long), 0.7)
    assert {part.dtype for part in scored} == {torch.float32}
    sum(part.sum() for part in scored).backward()
    assert logits.grad.dtype == torch.bfloat16


def test_at_ratio_one_the_policy_gradient_is_the_advantage_weighted_score():
    mask, draw = random_case(1)
    logprobs, advantages = draw().requires_grad_(), draw()
    tokens = int(mask.sum())
    policy_loss(logprobs, logprobs.detach(), advantages, mask)[0].backward()
    torch.testing.assert_close(logprobs.grad, torch.where(mask, -advantages / tokens, 0.0))


@pytest.mark.parametrize("name", ["policy", "value", "kl"])
def test_padding_gets_no_gradient_even_when_it_holds_infinities(name):
    mask, draw = random_case(3)
    loss = losses(name, mask, draw)
    point = torch.where(mask, draw(), float("inf")).requires_grad_()
    loss(point).backward()
    assert (~mask).any()
    assert not point.grad[~mask].any()
    assert torch.isfinite(point.grad[mask]).all()


def test_a_ratio_that_would_overflow_stays_finite():
    mask = torch.tensor([[True]])
    loss, _ = policy_loss(torch.tensor([[0.0]]), torch.tensor([[-1000.0]]), torch.tensor([[-1.0]]), mask)
    assert torch.isfinite(loss)
