"""GRPO and RLOO against TRL's own trainers: same weights, same replies, advantages, loss and gradient to 1e-5."""

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")
trl = pytest.importorskip("trl", reason="TRL is not installed: GRPO and RLOO are NOT compared with it")

from transformers import AutoModelForCausalLM  # noqa: E402

import toy_language  # noqa: E402
from rewardrate.policies.algorithms.grpo import GRPO  # noqa: E402
from rewardrate.policies.algorithms.rloo import RLOO  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402

ATTEMPTS, TEMPERATURE, KL = 4, 0.7, 0.05
CASES = {
    "grpo, mean over rows": ("GRPO", {"loss_type": "grpo"}, GRPO(attempts=ATTEMPTS, mean="rows")),
    "grpo, mean over tokens": ("GRPO", {"loss_type": "bnpo"}, GRPO(attempts=ATTEMPTS, mean="tokens")),
    "grpo, spread not scaled": (
        "GRPO",
        {"loss_type": "grpo", "scale_rewards": "none"},
        GRPO(scale="none", mean="rows"),
    ),
    "rloo": ("RLOO", {}, RLOO(attempts=ATTEMPTS)),
}


def trainer_of(name, options, folder, monkeypatch):
    """TRL's trainer on a toy model, and what its loss was given in one step that changes no weight."""
    from datasets import Dataset

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    language = toy_language.language(["quick", "slow", "idle", "odd"], seed=3)
    language.model.save_pretrained(folder / "model")
    language.tokenizer.save_pretrained(folder / "model")
    sizes = {"per_device_train_batch_size": 12, "num_generations": ATTEMPTS, "max_completion_length": 9}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    usual = {"max_steps": 1, "learning_rate": 0.0, "beta": KL, "temperature": TEMPERATURE, "seed": 5}
    usual |= (
        {"use_bias_correction_kl": False} if name == "GRPO" else {}
    )  # equation 4 of GRPO; DeepSeek-V3.2 has another
    settings = getattr(trl, f"{name}Config")(
        output_dir=str(folder), activation_checkpointing=False, **sizes, **quiet, **usual, **options
    )
    trainer = getattr(trl, f"{name}Trainer")(
        model=str(folder / "model"),
        processing_class=language.tokenizer,
        reward_funcs=lambda completion_ids, **_: [sum(ids) / 3 + len(ids) for ids in completion_ids],
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": ["go quick", "go slow odd", "go"]}),
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainer.ref_model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    given, loss = {}, trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: given.update(inputs) or loss(model, inputs)
    trainer.train()
    return trainer, loss, given


def experiences(given):
    """Its rows as ours. TRL has shuffled them: a group is known by its prompt."""
    parts = [given[f"{part}_{what}"] for part in ("prompt", "completion") for what in ("ids", "mask")]
    prompts, made = [], []
    for line, seen, reply, mask in zip(*parts, strict=True):
        prompt, ids = tuple(line[seen.bool()].tolist()), tuple(reply[mask.bool()].tolist())
        prompts += [prompt] if prompt not in prompts else []
        made.append(Experience(prompt, ids, sum(ids) / 3 + len(ids), group=prompts.index(prompt)))
    return made


@pytest.mark.parametrize("case", CASES)
def test_advantages_loss_and_gradient_are_those_of_trl(case, tmp_path, monkeypatch):
    name, options, algorithm = CASES[case]
    trainer, loss, given = trainer_of(name, options, tmp_path, monkeypatch)
    rows = experiences(given)
    assert len({row.prompt for row in rows}) == 3
    assert len({len(row.reply) for row in rows}) > 2
    settings = LearnerSettings(algorithm=algorithm, kl_coefficient=KL, entropy_coefficient=0.0, micro_batch=5)
    learner = Learner(AutoModelForCausalLM.from_pretrained(tmp_path / "model"), settings, TEMPERATURE)
    learner.reference.model.load_state_dict(trainer.ref_model.state_dict())
    batch, metrics = learner.prepare(rows)
    assert abs(metrics["kl"]) > 1e-3
    theirs = given["advantages"].unsqueeze(1) * batch.mask
    assert float(theirs.abs().max()) > 0.5
    torch.testing.assert_close(batch.advantages, theirs, atol=1e-5, rtol=0)

    # A policy that has moved since it drew these rows: some ratios are clipped.
    old = batch.old_logprobs + 0.3 * torch.sin(torch.arange(batch.mask.numel()).view_as(batch.mask)) * batch.mask
    given |= {"old_per_token_logps": old} if name == "GRPO" else {"old_logps": old.sum(1)}
    batch.old_logprobs = old
    agree(learner, rows, batch, trainer=trainer, value=loss(trainer.model, given))


def test_weights_of_replies_that_another_policy_wrote_are_those_of_trls_importance_sampling(tmp_path, monkeypatch):
    """TRL has them for GRPO, between the engine that samples and the weights that are trained."""
    name, options, algorithm = CASES["grpo, mean over tokens"]
    trainer, loss, given = trainer_of(name, options, tmp_path, monkeypatch)
    settings = LearnerSettings(
        algorithm=algorithm, kl_coefficient=0.0, entropy_coefficient=0.0, micro_batch=5, old_logprobs="decoupled"
    )
    learner = Learner(AutoModelForCausalLM.from_pretrained(tmp_path / "model"), settings, TEMPERATURE)
    rows = experiences(given)
    old, _ = Learner(learner.model, dataclasses.replace(settings, old_logprobs="recomputed"), TEMPERATURE).prepare(rows)
    off = torch.sin(torch.arange(old.mask.numel()).view_as(old.mask) + 0.5) * old.mask
    written = [tuple(line[: len(row.reply)].tolist()) for line, row in zip(old.old_logprobs - off, rows, strict=True)]
    rows = [dataclasses.replace(row, logprobs=one) for row, one in zip(rows, written, strict=True)]
    batch, metrics = learner.prepare(rows)
    assert 0 < metrics["weight_cut_share"] < 1
    batch.old_logprobs = old.old_logprobs + 0.3 * off
    trainer.use_vllm, trainer.vllm_importance_sampling_correction, trainer.beta = True, True, 0.0
    given |= {"old_per_token_logps": batch.old_logprobs, "importance_sampling_ratio": off.exp().clamp(max=2.0)}
    given |= {"sampling_per_token_logps": old.old_logprobs - off}
    agree(learner, rows, batch, trainer=trainer, value=loss(trainer.model, given))


def agree(learner, rows, batch, *, trainer, value):
    """Loss and gradient are TRL's, where some ratios are clipped."""
    trainer.model.zero_grad()
    value.backward()
    ours = learner.accumulate(rows, batch, range(len(rows)))
    assert 0 < ours["clip_share"] < 1
    assert ours["policy_loss"] == pytest.approx(float(value.detach()), abs=1e-5)
    assert slope_gap(learner, trainer) < 1e-5


def slope_gap(learner, trainer):
    """Norm of the difference of the two gradients over that of TRL's."""
    pairs = zip(learner.model.parameters(), trainer.model.parameters(), strict=True)
    slopes = [torch.cat([p.grad.flatten() for p in both]) for both in zip(*pairs, strict=True)]
    return float((slopes[0] - slopes[1]).norm() / slopes[1].norm())
