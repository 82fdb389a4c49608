"""What algorithms share: statistics of groups, parts of a batch, and that a learner takes any of them."""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate import config, registry  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies.algorithms import GROUP, Algorithm, Batch, Loss  # noqa: E402
from rewardrate.policies.algorithms.algorithm import group_statistics, on_tokens  # noqa: E402
from rewardrate.policies.checkpoint import load_learner, save_learner  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402

NAMES = sorted(registry.load(GROUP))


def rows(seed=0, count=8, group=4):
    generator = torch.Generator().manual_seed(seed)
    number = lambda low, high: int(torch.randint(low, high, (), generator=generator))
    replies = [tuple(number(0, 61) for _ in range(number(1, 9))) for _ in range(count)]
    rewards = [float(reward) for reward in torch.randn(count, generator=generator)]
    prompts = [(1 + place // group, 2, 3) for place in range(count)]
    return [
        Experience(prompt, reply, reward, group=place // group)
        for place, (prompt, reply, reward) in enumerate(zip(prompts, replies, rewards, strict=True))
    ]


def settings(kind, **changes):
    usual = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "algorithm": {"kind": kind}}
    return config.build(LearnerSettings, usual | changes)


def numbers(learner):
    found = []
    for _, network, optimiser in learner.parts():
        found += [p.detach().clone() for p in network.parameters()]
        found += [tensor.clone() for state in optimiser.state.values() for tensor in state.values()]
    return found


def test_the_package_registers_three():
    assert NAMES == ["grpo", "ppo", "rloo"]
    assert {registry.load(GROUP)[name]().kind for name in NAMES} == set(NAMES)


def test_statistics_are_of_each_rows_group_in_whatever_order_the_rows_stand():
    rewards, groups = torch.tensor([1.0, 5.0, 3.0, 7.0, 8.0]), torch.tensor([4, 1, 4, 9, 4])
    mean, spread, count = group_statistics(rewards, groups)
    assert mean.tolist() == [4.0, 5.0, 4.0, 7.0, 4.0]
    assert spread.tolist() == pytest.approx([13**0.5, 0.0, 13**0.5, 0.0, 13**0.5])
    assert count.tolist() == [3.0, 1.0, 3.0, 1.0, 3.0]


@pytest.mark.parametrize("reward", [0.1, -10.0, 1e6, 1 / 3])
@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_a_group_that_earns_alike_teaches_nothing_and_not_amplified_rounding(kind, reward, build):
    learner = Learner(build.llama(), settings(kind, kl_coefficient=0.0))
    batch, _ = learner.prepare([dataclasses.replace(row, reward=reward) for row in rows(count=6, group=3)])
    assert batch.advantages.abs().max() < 1e-6


def test_one_number_a_row_stands_on_its_reply_tokens_and_rows_can_be_taken_out(build):
    learner = Learner(build.llama(), settings("grpo"))
    batch, _ = learner.prepare(rows())
    spread = on_tokens(torch.arange(8.0), batch)
    assert torch.equal(spread.amax(1), torch.arange(8.0))
    assert not spread[~batch.mask].any()
    some = batch.rows(torch.tensor([5, 2]))
    assert torch.equal(some.rewards, batch.rewards[[5, 2]])
    assert torch.equal(some.mask, batch.mask[[5, 2]])
    assert some.kl_coefficient == batch.kl_coefficient


@pytest.mark.parametrize("kind", NAMES)
def test_the_gradient_does_not_depend_on_the_micro_batch_size(kind, build):
    found = []
    for size in (8, 1, 3):
        learner = Learner(build.llama().double(), settings(kind, micro_batch=size, prompts="apart"), 0.7)
        batch, _ = learner.prepare(rows())
        batch.old_logprobs = batch.old_logprobs + 0.1 * torch.sin(torch.arange(batch.mask.numel()).view_as(batch.mask))
        learner.accumulate(rows(), batch, [0, 1, 2, 4, 7])
        found.append(torch.cat([p.grad.flatten() for p in learner.model.parameters()]))
    for other in found[1:]:
        assert float((other - found[0]).norm() / found[0].norm()) < 1e-10


@pytest.mark.parametrize("kind", NAMES)
def test_saved_loaded_and_continued_equals_never_stopped(kind, build, tmp_path):
    one, other = (Learner(build.llama(), settings(kind, mini_batch=4), seed=seed) for seed in (0, 9))
    one.update(rows(1))
    save_learner(one, tmp_path, {})
    load_learner(other, tmp_path, {})
    told = [learner.update(rows(2)) for learner in (one, other)]
    assert all(torch.equal(a, b) for a, b in zip(numbers(one), numbers(other), strict=True))
    assert all(torch.isfinite(torch.tensor(value)) for value in told[0].values())


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_without_a_critic_nothing_is_kept_or_told_of_one(kind, build, tmp_path):
    learner = Learner(build.llama(), settings(kind))
    assert learner.critic is None
    assert {"value_loss", "value_clip_share", "critic_grad_norm", "explained_variance"}.isdisjoint(
        learner.update(rows())
    )
    save_learner(learner, tmp_path, {})
    with pytest.raises(InputError, match="does not fit this model and critic"):
        load_learner(Learner(build.llama(), settings("ppo")), tmp_path, {})


@dataclass(frozen=True)
class Reinforce(Algorithm):
    """The smallest one: no registration is needed where it is given in Python."""

    kind: Literal["reinforce"] = "reinforce"

    def advantages(self, batch):
        found = on_tokens(batch.rewards, batch)
        return found, found

    def loss(self, batch, logprobs, values):
        return Loss(-batch.advantages * logprobs)


def test_a_learner_takes_an_algorithm_that_it_does_not_know(build):
    learner = Learner(build.llama(), LearnerSettings(algorithm=Reinforce(), entropy_coefficient=0.0))
    batch, _ = learner.prepare(rows())
    assert isinstance(batch, Batch)
    learner.accumulate(rows(), batch, range(8))
    assert float(torch.cat([p.grad.flatten() for p in learner.model.parameters()]).norm()) > 0
