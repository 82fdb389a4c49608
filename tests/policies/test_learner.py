"""The learner: the gradient it takes, what it refuses, and that it learns."""

import copy
import dataclasses
import math

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.config import build as build_config  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies import policy_gradient as pg  # noqa: E402
from rewardrate.policies.algorithms import PPO  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402

FAST = LearnerSettings(learning_rate=1e-3, critic_learning_rate=1e-3)


def batch(seed=0, rows=10):
    generator = torch.Generator().manual_seed(seed)
    number = lambda low, high: int(torch.randint(low, high, (), generator=generator))
    return [
        Experience(
            tuple(number(0, 61) for _ in range(number(1, 9))),
            tuple(number(0, 61) for _ in range(number(1, 12))),
            float(torch.randn((), generator=generator)) * 3,
        )
        for _ in range(rows)
    ]


def weights(network):
    return [p.detach().clone() for p in network.parameters()]


def gradient(model, settings, rows, moved):
    """Gradients of policy and critic over the whole batch, the old policy and values a little off the present ones."""
    learner = Learner(model, settings, temperature=0.7)
    prepared, _ = learner.prepare(rows)
    prepared.old_logprobs += moved * torch.sin(torch.arange(prepared.mask.numel()).reshape(prepared.mask.shape))
    prepared.old_values += moved
    learner.accumulate(rows, prepared, range(len(rows)))
    return [p.grad for p in learner.model.parameters()], [p.grad for p in learner.critic.parameters()]


def distance(ours, theirs):
    """Norm of the difference of two gradients over the norm of the second."""
    difference = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(ours, theirs, strict=True)))
    return difference / math.sqrt(sum(float((b**2).sum()) for b in theirs))


def test_the_defaults_are_the_papers_table():
    s = LearnerSettings()
    assert (s.learning_rate, s.critic_learning_rate, s.betas, s.weight_decay) == (1e-6, 1e-5, (0.9, 0.999), 0.01)
    assert (s.algorithm.clip, s.algorithm.value_clip, s.gradient_clip) == (0.2, 0.5, 1.0)
    assert (s.entropy_coefficient, s.kl_coefficient, s.algorithm.discount, s.algorithm.trace) == (0.001, 0.001, 1, 1)
    assert (s.epochs, s.mini_batch, s.micro_batch, s.algorithm.whiten, s.critic) == (1, None, 4, True, "own")


def test_settings_can_come_from_a_recipe_and_nonsense_is_refused():
    assert build_config(LearnerSettings, {"critic": "shared", "epochs": 3}).epochs == 3
    with pytest.raises(InputError, match="at least 1"):
        build_config(LearnerSettings, {"micro_batch": 0})
    with pytest.raises(InputError, match=r"betas\[1\]"):
        build_config(LearnerSettings, {"betas": [0.9, 1.5]})


def test_settings_made_in_python_are_checked_too(build):
    with pytest.raises(InputError, match=r"learner\.algorithm\.clip"):
        Learner(build.llama(), LearnerSettings(algorithm=PPO(clip=-1.0)))
    with pytest.raises(InputError, match=r"learner\.epochs"):
        Learner(build.llama(), LearnerSettings(epochs=0))


@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("moved", [0.0, 0.4])
def test_the_gradient_does_not_depend_on_the_micro_batch_size(build, critic, moved):
    rows = batch()
    for network, allowed in ((build.llama().double(), 1e-12), (build.llama(initializer_range=0.05), 1e-6)):
        settings = dataclasses.replace(FAST, critic=critic)
        whole = dataclasses.replace(settings, micro_batch=10)
        expected = gradient(copy.deepcopy(network), whole, rows, moved)
        for size in (1, 3, 4, 7):
            cut = dataclasses.replace(settings, micro_batch=size)
            found = gradient(copy.deepcopy(network), cut, rows, moved)
            for ours, theirs in zip(found, expected, strict=True):
                assert distance(ours, theirs) <= allowed


@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("size", [3, 6, 32])
def test_a_prompt_computed_once_gives_the_gradient_of_a_prompt_computed_for_every_row(build, critic, size):
    rows = [dataclasses.replace(row, prompt=((1, 2, 3), (4, 5))[i % 2]) for i, row in enumerate(batch(rows=11))]
    rows += batch(seed=1, rows=3)
    stem = tuple(range(20))
    rows += [dataclasses.replace(row, prompt=stem + row.prompt) for row in batch(seed=2, rows=6)]
    found = {}
    for prompts in ("apart", "shared"):
        settings = dataclasses.replace(FAST, prompts=prompts, micro_batch=size, critic=critic)
        found[prompts] = gradient(build.llama().double(), settings, rows, 0.3)
    for ours, theirs in zip(found["shared"], found["apart"], strict=True):
        assert distance(ours, theirs) <= 1e-6  # the norms of this architecture round to float32


def test_prompts_are_shared_on_a_cpu_unless_told_otherwise_or_attention_cannot_tell_rows_apart(build):
    assert Learner(build.llama(), FAST).share
    assert not Learner(build.llama(), dataclasses.replace(FAST, prompts="apart")).share
    eager = build.llama(attn_implementation="eager")
    assert not Learner(eager, FAST).share
    with pytest.raises(InputError, match="cannot tell rows"):
        Learner(eager, dataclasses.replace(FAST, prompts="shared"))


def test_the_gradient_equals_that_of_the_loss_written_out_row_by_row(build):
    rows, model = batch(rows=6), build.llama().double()
    learner = Learner(model, dataclasses.replace(FAST, kl_coefficient=0.0), temperature=0.7)
    prepared, _ = learner.prepare(rows)
    prepared.old_logprobs = prepared.old_logprobs + 0.3
    learner.accumulate(rows, prepared, range(6))
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    tokens, total = sum(len(row.reply) for row in rows), 0.0
    for b, row in enumerate(rows):
        table = (model(torch.tensor([[*row.prompt, *row.reply]])).logits[0] / 0.7).log_softmax(-1)
        for t, token in enumerate(row.reply):
            here = table[len(row.prompt) - 1 + t]
            ratio = (here[token] - prepared.old_logprobs[b, t].double()).exp()
            advantage = prepared.advantages[b, t].double()
            surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            total = total - surrogate / tokens + 0.001 * (here.exp() * here).sum() / tokens
    total.backward()
    for ours, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, atol=1e-12, rtol=1e-9)


def test_advantages_are_reward_to_come_minus_value_with_the_kl_paid_on_the_way(build):
    rows, model = batch(rows=5), build.llama()
    learner = Learner(model, dataclasses.replace(FAST, kl_coefficient=0.5, algorithm=PPO(whiten=False)))
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        learner.critic.head.bias.fill_(0.25)
    prepared, metrics = learner.prepare(rows)
    for b, row in enumerate(rows):
        ids = torch.tensor([[*row.prompt, *row.reply]])
        now, then = (net(ids).logits[0].log_softmax(-1).detach() for net in (model, learner.reference.model))
        at = [(len(row.prompt) - 1 + t, token) for t, token in enumerate(row.reply)]
        paid = [0.5 * float(now[i, k] - then[i, k]) for i, k in at]
        for t in range(len(at)):
            expected = row.reward - sum(paid[t:]) - 0.25
            assert float(prepared.advantages[b, t]) == pytest.approx(expected, abs=2e-4)
    assert metrics["kl"] != 0.0


def test_same_seed_same_batches_end_with_equal_bits(build):
    settings = dataclasses.replace(FAST, epochs=2, mini_batch=4, micro_batch=3)
    ends = []
    for _ in range(2):
        learner = Learner(build.llama(), settings, 0.7, seed=5)
        for step in range(3):
            learner.update(batch(step))
        ends.append(weights(learner.model) + weights(learner.critic))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("old", ["recomputed", "sampled", "decoupled"])
def test_a_batch_that_is_one_micro_batch_is_passed_once_and_learns_the_same(build, critic, old):
    rows = [dataclasses.replace(row, logprobs=(-2.0,) * len(row.reply)) for row in batch()]
    ends, told = [], []
    for size in (10, 9):
        settings = dataclasses.replace(FAST, critic=critic, old_logprobs=old, micro_batch=size, epochs=2)
        learner = Learner(build.llama().double(), settings, 0.7)
        assert (learner._first(rows) is None) == (size < 10)
        told.append([learner.update(rows), learner.update(rows)])
        ends.append(weights(learner.model) + weights(learner.critic))
    assert distance(*ends) <= 1e-6
    for once, twice in zip(*told, strict=True):
        for key in set(once) - {"seconds"}:
            assert once[key] == pytest.approx(twice[key], rel=1e-5, abs=1e-8), key


def test_another_seed_shuffles_the_mini_batches_differently(build):
    settings = dataclasses.replace(FAST, mini_batch=3)
    ends = []
    for seed in (1, 2):
        learner = Learner(build.llama(), settings, seed=seed)
        learner.update(batch())
        ends.append(weights(learner.model))
    assert not all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_one_pass_over_one_mini_batch_clips_nothing_and_moves_nothing_before_its_step(build):
    metrics = Learner(build.llama(), FAST, 0.7).update(batch())
    assert metrics["clip_share"] == metrics["value_clip_share"] == metrics["step_kl"] == 0.0
    assert metrics["kl"] == 0.0
    assert (metrics["rows"], metrics["skipped_steps"]) == (10.0, 0.0)
    assert metrics["tokens"] == sum(len(row.reply) for row in batch())
    assert all(math.isfinite(value) for value in metrics.values())


def test_more_passes_move_the_ratio_and_the_clip_begins_to_bite(build):
    settings = dataclasses.replace(FAST, learning_rate=0.02, epochs=6)
    metrics = Learner(build.llama(), settings).update(batch())
    assert metrics["clip_share"] > 0.0
    assert metrics["step_kl"] != 0.0


def test_sampled_log_probabilities_are_the_denominator_when_asked_for(build):
    rows = [dataclasses.replace(row, logprobs=(-1.5,) * len(row.reply)) for row in batch()]
    learner = Learner(build.llama(), dataclasses.replace(FAST, old_logprobs="sampled"))
    prepared, metrics = learner.prepare(rows)
    assert set(prepared.old_logprobs[prepared.mask].tolist()) == {-1.5}
    assert "sampler_gap" not in metrics
    assert Learner(build.llama(), FAST).prepare(rows)[1]["sampler_gap"] > 0


def test_the_shared_critic_sends_no_gradient_into_the_policy(build):
    rows = batch()
    ends = []
    for rate in (0.0, 0.1):  # the critic's own learning must not be felt by the policy within a batch
        settings = dataclasses.replace(FAST, critic="shared", critic_learning_rate=rate, epochs=3, weight_decay=0.0)
        learner = Learner(build.llama(), settings)
        learner.update(rows)
        ends.append(weights(learner.model))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_without_a_price_on_kl_there_is_no_reference(build):
    learner = Learner(build.llama(), dataclasses.replace(FAST, kl_coefficient=0.0))
    assert learner.reference is None
    assert "kl" not in learner.update(batch())


def test_gradient_checkpointing_changes_no_gradient(build):
    rows = batch()
    plain = gradient(build.llama(), FAST, rows, 0.2)
    again = gradient(build.llama(), dataclasses.replace(FAST, gradient_checkpointing=True), rows, 0.2)
    for one, other in zip(plain[0] + plain[1], again[0] + again[1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_bf16_arithmetic_keeps_fp32_weights_and_comes_near(build):
    learner = Learner(build.llama(), dataclasses.replace(FAST, precision="bf16"))
    exact = Learner(build.llama(), FAST)
    near, true = learner.update(batch()), exact.update(batch())
    assert all(p.dtype == torch.float32 for p in learner.model.parameters())
    assert near["entropy"] == pytest.approx(true["entropy"], rel=0.02)


def test_weights_below_fp32_are_refused(build):
    with pytest.raises(InputError, match="must be float32"):
        Learner(build.llama().to(torch.bfloat16), FAST)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Experience((), (1,), 0.0), "at least one token"),
        (Experience((1,), (), 0.0), "at least one token"),
        (Experience((1,), (2,), float("nan")), "finite"),
        (Experience((1,), (2, 3), 0.0, (-1.0,)), "one a token"),
    ],
)
def test_a_bad_row_is_refused_and_nothing_changes(build, row, message):
    learner = Learner(build.llama(), FAST)
    before = weights(learner.model)
    with pytest.raises(InputError, match=message):
        learner.update([*batch(rows=2), row])
    assert all(torch.equal(one, other) for one, other in zip(before, weights(learner.model), strict=True))


def test_no_rows_teach_nothing(build):
    assert Learner(build.llama(), FAST).update([]) == {}


def test_a_gradient_that_is_not_finite_is_thrown_away_and_counted(build):
    learner = Learner(build.llama(), dataclasses.replace(FAST, algorithm=PPO(whiten=False)))
    before = weights(learner.model)
    metrics = learner.update([Experience((1,), (2, 3), 3e38), Experience((1,), (4,), -3e38)])
    assert metrics["skipped_steps"] >= 1.0
    assert all(torch.isfinite(p).all() for p in learner.model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, weights(learner.model), strict=True))


@pytest.mark.parametrize("critic", ["own", "shared"])
def test_a_rewarded_token_becomes_likely(build, critic):
    settings = dataclasses.replace(FAST, learning_rate=3e-3, critic_learning_rate=3e-3, critic=critic, micro_batch=32)
    learner = Learner(build.llama(initializer_range=0.05), settings)
    generator = torch.Generator().manual_seed(0)

    def chance():
        with torch.no_grad():
            return learner.model(torch.tensor([[1, 2]])).logits[0, -1].softmax(-1)

    assert chance()[7] < 0.1
    for _ in range(60):
        tokens = torch.multinomial(chance(), 32, replacement=True, generator=generator).tolist()
        learner.update([Experience((1, 2), (token,), 1.0 if token == 7 else 0.0) for token in tokens])
    assert chance()[7] > 0.9


def test_a_critic_comes_to_foresee_what_a_state_earns(build):
    settings = dataclasses.replace(FAST, learning_rate=0.0, critic_learning_rate=3e-3, algorithm=PPO(value_clip=100.0))
    learner = Learner(build.llama(), settings)
    rows = [Experience((1, 2), (3, 4), 5.0), Experience((9, 8), (3, 4), -5.0)] * 4
    for _ in range(80):
        metrics = learner.update(rows)
    assert metrics["explained_variance"] > 0.95


def test_the_whitened_batch_is_what_the_functions_say(build):
    learner = Learner(build.llama(), FAST)
    plain = Learner(copy.deepcopy(build.llama()), dataclasses.replace(FAST, algorithm=PPO(whiten=False)))
    white, raw = learner.prepare(batch())[0], plain.prepare(batch())[0]
    torch.testing.assert_close(white.advantages, pg.whiten(raw.advantages, raw.mask))
