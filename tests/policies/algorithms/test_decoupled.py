"""Learning from replies of older weights: `old_logprobs = "decoupled"`, for every algorithm alike."""

import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

import algorithm_batches  # noqa: E402
import toy_language  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies import LanguageModelPolicy  # noqa: E402
from rewardrate.policies import policy_gradient as pg  # noqa: E402
from rewardrate.policies.algorithms import PPO  # noqa: E402
from rewardrate.policies.algorithms.grpo import GRPO  # noqa: E402
from rewardrate.policies.algorithms.rloo import RLOO  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402

ALGORITHMS = {"ppo": PPO(), "grpo": GRPO(attempts=4), "rloo": RLOO(attempts=4)}
REWARDS = (1.0, -2.0, 0.5, 3.0, 0.0, 1.5, -1.0, 2.0)


def settings(kind, **changes):
    usual = {"learning_rate": 1e-2, "critic_learning_rate": 1e-2, "entropy_coefficient": 0.0, "micro_batch": 3}
    return LearnerSettings(**(usual | {"algorithm": ALGORITHMS[kind], "old_logprobs": "decoupled"} | changes))


def replies(learner, moved=0.0):
    """Two prompts, four replies of one to six tokens each; written with log-probabilities up to `moved` off."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda low, high: int(torch.randint(low, high, (), generator=generator))
    rows = [
        Experience((7 + place // 4, 3), tuple(draw(0, 61) for _ in range(draw(1, 7))), reward, group=place // 4)
        for place, reward in enumerate(REWARDS)
    ]
    plain = Learner(learner.model, dataclasses.replace(learner.settings, old_logprobs="recomputed"), 0.7)
    now = plain.prepare(rows)[0].old_logprobs
    off = moved * torch.sin(torch.arange(now.numel(), dtype=now.dtype).view_as(now) + 0.5)
    written = [tuple(line[: len(row.reply)].tolist()) for line, row in zip(now - off, rows, strict=True)]
    return [dataclasses.replace(row, logprobs=one) for row, one in zip(rows, written, strict=True)]


def weights_of(learner):
    return torch.cat([p.detach().flatten() for _, network, _ in learner.parts() for p in network.parameters()])


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_replies_of_the_present_weights_are_learned_from_as_without_it_bit_for_bit(kind, build):
    ends = []
    for old in ("decoupled", "recomputed"):
        learner = Learner(build.llama(), settings(kind, old_logprobs=old, epochs=2, mini_batch=4), 0.7, seed=3)
        metrics = learner.update(replies(learner))
        ends.append(weights_of(learner))
        assert metrics.get("weight", 1.0) == 1.0
    assert torch.equal(*ends)


def test_replies_that_the_sampler_has_just_written_are_learned_from_as_without_it_to_rounding():
    ends = []
    for old in ("decoupled", "recomputed"):
        learner = dataclasses.replace(toy_language.LEARNER, old_logprobs=old)
        policy = LanguageModelPolicy(toy_language.language(["quick", "slow"], 0), toy_language.SAMPLING, learner)
        proposals = policy.propose([[{"role": "user", "content": "go"}]] * 8, seed=1)
        policy.learn(proposals, [float(len(one.text)) for one in proposals])
        ends.append(weights_of(policy.learner))
    torch.testing.assert_close(*ends, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_the_gradient_is_that_of_the_weighted_clipped_loss_written_out_in_float64(kind, build):
    model = build.llama().double()
    learner = Learner(model, settings(kind, kl_coefficient=0.05), 0.7)
    rows = replies(learner, moved=1.2)
    batch, metrics = learner.prepare(rows)
    before = batch.old_logprobs.clone()
    with torch.no_grad():  # the policy moves within the update, so that the clip bites as well
        for place, parameter in enumerate(model.parameters()):
            parameter.add_(0.1 * torch.sin(torch.arange(parameter.numel()) + place).view_as(parameter))
    parts = learner.accumulate(rows, batch, range(len(rows)))
    assert 0 < parts["clip_share"] < 1
    assert 0 < metrics["weight_cut_share"] < 1
    found = torch.cat([p.grad.flatten() for p in model.parameters()])
    model.zero_grad()
    losses = []
    for b, row in enumerate(rows):
        table, frozen = (
            (net(torch.tensor([[*row.prompt, *row.reply]])).logits[0] / 0.7).log_softmax(-1)
            for net in (model, learner.reference.model)
        )
        at = [(len(row.prompt) - 1 + t, token) for t, token in enumerate(row.reply)]
        now, known = (torch.stack([one[place] for place in at]) for one in (table, frozen.detach()))
        moved, stale = now - before[b, : len(at)], before[b, : len(at)] - torch.tensor(row.logprobs).double()
        if kind == "rloo":
            moved, stale = moved.sum().expand(len(at)), stale.sum().expand(len(at))
        gain, ratio = batch.advantages[b, : len(at)], moved.exp()
        loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        if kind == "grpo":
            loss = loss + 0.05 * ((known - now).exp() - (known - now) - 1)
        losses.append(torch.minimum(stale.exp(), torch.tensor(2.0)) * loss)
    by_row = torch.stack([one.mean() for one in losses]).mean()
    total = by_row if kind == "rloo" else torch.cat(losses).mean()
    total.backward()
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert parts["policy_loss"] == pytest.approx(float(total.detach()), rel=1e-6)
    assert float((found - expected).norm() / expected.norm()) < 1e-6


@pytest.mark.parametrize(("kind", "length"), [("ppo", 1), ("grpo", 1), ("rloo", 2)])
def test_over_all_replies_of_the_policy_that_wrote_it_is_the_exact_gradient_of_the_present_one(kind, length):
    """Every reply once, weighed by its chance under the older policy; tokens as actions, and whole replies for RLOO."""
    algorithm, words = ALGORITHMS[kind], 4
    every = torch.tensor(list(itertools.product(range(words), repeat=length)))
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    worth, point, older = draw(len(every)), draw(length, words).requires_grad_(), draw(length, words)
    chances = lambda logits: logits.log_softmax(-1)[torch.arange(length), every]
    logprobs, written = chances(point), chances(older)
    batch, _ = algorithm_batches.batch([0.0] * len(every), [0] * len(every))
    batch.mask = torch.ones_like(every, dtype=torch.bool)
    batch.old_logprobs, batch.advantages = logprobs.detach(), worth.unsqueeze(1).expand(every.shape)
    batch.old_values = batch.returns = torch.zeros_like(logprobs)
    weights, _ = pg.importance_weights(batch.old_logprobs - written, 1e9, algorithm.whole_replies)
    loss = (weights * algorithm.loss(batch, logprobs, batch.old_values).policy).mean(1)
    (found,) = torch.autograd.grad(written.sum(1).exp() @ loss, point, retain_graph=True)
    (exact,) = torch.autograd.grad(-(logprobs.sum(1).exp() @ worth), point)
    torch.testing.assert_close(found, exact, atol=1e-12, rtol=0)


def test_a_cut_loses_only_what_became_likelier_than_the_limit_and_bounds_the_second_moment():
    generator = torch.Generator().manual_seed(4)
    older, now = (torch.randn(50, generator=generator, dtype=torch.float64).mul(2).softmax(0) for _ in range(2))
    f = torch.randn(50, generator=generator, dtype=torch.float64)
    weights, cut = pg.importance_weights((now / older).log().unsqueeze(1), 2.0)
    lost = (1 - 2.0 * older / now).clamp(min=0) * f
    assert 0 < cut.double().mean() < 1
    assert float(older @ (weights[:, 0] * f)) == pytest.approx(float(now @ (f - lost)), abs=1e-12)
    assert float(older @ weights[:, 0] ** 2) <= 2.0


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_a_good_reply_that_became_likelier_since_it_was_written_still_teaches(kind, build):
    norms = {}
    for old in ("sampled", "decoupled"):
        learner = Learner(build.llama(), settings(kind, old_logprobs=old, kl_coefficient=0.0), 0.7)
        rows = replies(learner)
        rows = [dataclasses.replace(row, logprobs=tuple(one - 0.5 for one in row.logprobs)) for row in rows]
        batch, _ = learner.prepare(rows)
        batch.advantages = batch.advantages.abs() * batch.mask
        norms[old] = float(learner.accumulate(rows, batch, range(len(rows)))["clip_share"])
        norms[old, "slope"] = max(float(p.grad.abs().max()) for p in learner.model.parameters())
    assert norms["sampled"] == 1.0
    assert norms["sampled", "slope"] == 0.0
    assert norms["decoupled"] == 0.0
    assert norms["decoupled", "slope"] > 1e-4


def test_a_reply_whose_writer_said_nothing_of_its_chances_is_refused(build):
    learner = Learner(build.llama(), settings("ppo"))
    with pytest.raises(InputError, match=r'old_logprobs = "decoupled" needs those of the sampler'):
        learner.update([Experience((1,), (2,), 1.0)])
