"""The policy as the loop sees it: it proposes, learns, stops and resumes."""

import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies.language_model import LanguageModelPolicy  # noqa: E402
from rewardrate.policies.learner import LearnerSettings  # noqa: E402
from rewardrate.policies.models import LoraSettings, add_lora, load_model  # noqa: E402
from rewardrate.policies.policy import Policy  # noqa: E402
from rewardrate.policies.sampling import SamplingSettings  # noqa: E402

SAMPLING = SamplingSettings(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.0, new_tokens=12)
LEARNING = LearnerSettings(learning_rate=1e-3, critic_learning_rate=1e-3)
PROMPTS = [[{"role": "user", "content": text}] for text in ("add 1", "write a loop", "go")]


def policy(build, learner=LEARNING, sampling=SAMPLING, **changes):
    return LanguageModelPolicy(build.language(), sampling, learner, **changes)


def rewards(proposals):
    return [float(len(proposal.text) % 5) for proposal in proposals]


def weights(owner):
    return [p.detach().clone() for p in owner.language.model.parameters()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_it_is_a_policy(build):
    assert isinstance(policy(build), Policy)
    assert policy(build).trainable
    assert not policy(build, learner=None).trainable
    assert policy(build).engine.startswith(("eager: ", "fused: "))


def test_without_a_gpu_it_takes_half_of_the_cores_and_no_more_threads_than_that(build):
    torch.set_num_threads(3)
    assert [policy(build).take_cores(usable) for usable in (8, 2, 1)] == [4, 1, 1]
    assert torch.get_num_threads() == 1


def test_a_proposal_holds_the_text_of_its_tokens_and_a_share_of_the_time(build):
    owner = policy(build)
    proposals = owner.propose(PROMPTS, 0)
    for prompt, proposal in zip(PROMPTS, proposals, strict=True):
        assert proposal.prompt_tokens == tuple(owner.language.encode(prompt))
        assert proposal.text == owner.language.decode(proposal.reply_tokens)
        assert len(proposal.logprobs) == len(proposal.reply_tokens) <= 12
        assert proposal.finished == (proposal.reply_tokens[-1] == 2)
        assert proposal.seconds > 0


def test_same_seed_and_weights_give_the_same_proposals(build):
    plain = [dataclasses.replace(p, seconds=0) for p in policy(build).propose(PROMPTS, 3)]
    assert plain == [dataclasses.replace(p, seconds=0) for p in policy(build).propose(PROMPTS, 3)]
    assert plain != [dataclasses.replace(p, seconds=0) for p in policy(build).propose(PROMPTS, 4)]


def test_learning_moves_the_weights_and_tells_what_it_did(build):
    owner = policy(build)
    before = weights(owner)
    proposals = owner.propose(PROMPTS, 0)
    metrics = owner.learn(proposals, [1.0, 0.0, -1.0])
    assert not same(before, weights(owner))
    assert {"policy_loss", "value_loss", "entropy", "kl", "clip_share", "value_clip_share", "grad_norm"} <= set(metrics)
    assert metrics["sampler_gap"] < 1e-5
    assert metrics["rows"] == 3.0
    assert owner.propose(PROMPTS, 0) != proposals


def test_a_row_without_a_reward_is_as_if_it_were_not_there(build):
    ends = []
    for keep in (True, False):
        owner = policy(build)
        proposals = owner.propose(PROMPTS, 0)
        owner.learn(proposals if keep else proposals[:2], [1.0, -1.0, None] if keep else [1.0, -1.0])
        ends.append(weights(owner))
    assert same(*ends)


def test_a_batch_of_nothing_but_failures_of_the_sandbox_teaches_nothing(build):
    owner = policy(build)
    before = weights(owner)
    assert owner.learn(owner.propose(PROMPTS, 0), [None, None, None]) == {}
    assert same(before, weights(owner))


def test_one_reward_too_few_is_refused(build):
    owner = policy(build)
    with pytest.raises(InputError, match="one for each of the 3"):
        owner.learn(owner.propose(PROMPTS, 0), [1.0])


def test_a_frozen_policy_learns_nothing_and_can_still_be_saved(build, tmp_path):
    owner = policy(build, learner=None)
    before = weights(owner)
    assert owner.learn(owner.propose(PROMPTS, 0), [1.0, 2.0, 3.0]) == {}
    owner.save(tmp_path)
    owner.load(tmp_path)
    assert same(before, weights(owner))


@pytest.mark.parametrize("critic", ["own", "shared"])
def test_saved_loaded_and_continued_equals_never_stopped_bit_for_bit(build, tmp_path, critic):
    settings = dataclasses.replace(LEARNING, critic=critic, mini_batch=2)
    unbroken = policy(build, settings)
    for step in range(2):
        proposals = unbroken.propose(PROMPTS, step)
        unbroken.learn(proposals, rewards(proposals))
    unbroken.save(tmp_path / "here")
    again = policy(build, settings, seed=5)
    again.load(tmp_path / "here")
    assert again.updates == 2
    for step in range(2, 4):
        one, other = unbroken.propose(PROMPTS, step), again.propose(PROMPTS, step)
        assert [p.reply_tokens for p in one] == [p.reply_tokens for p in other]
        first, second = unbroken.learn(one, rewards(one)), again.learn(other, rewards(other))
        assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert same(weights(unbroken), weights(again))


def test_a_checkpoint_of_another_base_model_is_refused(build, tmp_path):
    policy(build).save(tmp_path)
    other = LanguageModelPolicy(build.language(seed=1), SAMPLING, LEARNING)
    with pytest.raises(InputError, match="its base is"):
        other.load(tmp_path)


def test_a_prompt_that_is_too_long_loses_its_middle(build, caplog):
    owner = policy(build, prompt_tokens=40)
    long = [{"role": "user", "content": "first " + "x" * 500 + " last"}]
    tokens = owner.propose([long], 0)[0].prompt_tokens
    whole = owner.language.encode(long)
    assert len(tokens) == 40
    assert tokens[:20] == tuple(whole[:20])
    assert tokens[20:] == tuple(whole[-20:])
    assert "loses its middle" in caplog.text


def test_prompts_always_leave_room_for_a_reply(build):
    owner = LanguageModelPolicy(build.language(max_position_embeddings=64), SamplingSettings(new_tokens=50))
    proposal = owner.propose([[{"role": "user", "content": "y" * 300}]], 0)[0]
    assert len(proposal.prompt_tokens) == 32
    assert 1 <= len(proposal.reply_tokens) <= 32


def test_checkpointed_layers_still_sample_with_a_cache(build):
    settings = dataclasses.replace(LEARNING, gradient_checkpointing=True)
    owner, plain = policy(build, settings), policy(build)
    assert [p.text for p in owner.propose(PROMPTS, 0)] == [p.text for p in plain.propose(PROMPTS, 0)]


def test_lora_learns_with_the_base_as_its_reference_and_comes_back_from_disk(build, tmp_path):
    pytest.importorskip("peft", reason="optional")

    def fresh():
        language = build.language()
        torch.seed()  # whatever was drawn before
        changed = dataclasses.replace(language, model=add_lora(language.model, LoraSettings(rank=2)))
        return LanguageModelPolicy(changed, SAMPLING, dataclasses.replace(LEARNING, learning_rate=0.02))

    owner = fresh()
    for step in range(3):
        proposals = owner.propose(PROMPTS, step)
        metrics = owner.learn(proposals, rewards(proposals))
    assert metrics["kl"] != 0.0  # the adapters have moved away from the base
    frozen = {n: p for n, p in owner.language.model.named_parameters() if not p.requires_grad}
    start = {n: p for n, p in fresh().language.model.named_parameters() if not p.requires_grad}
    assert all(torch.equal(frozen[name], start[name]) for name in start)
    owner.save(tmp_path)
    again = fresh()
    again.load(tmp_path)
    assert same(weights(owner), weights(again))


def test_an_exported_model_loads_by_its_folder_and_replies_the_same(build, tmp_path):
    owner = policy(build)
    proposals = owner.propose(PROMPTS, 0)
    owner.learn(proposals, rewards(proposals))
    owner.export(tmp_path / "out")
    again = LanguageModelPolicy(load_model(str(tmp_path / "out"), device="cpu"), SAMPLING)
    assert [p.text for p in again.propose(PROMPTS, 1)] == [p.text for p in owner.propose(PROMPTS, 1)]


def test_a_policy_learns_on_after_an_export_as_if_there_had_been_none(build, tmp_path):
    ends = []
    for folder in (None, tmp_path / "out"):
        owner = policy(build)
        proposals = owner.propose(PROMPTS, 0)
        if folder:
            owner.export(folder)
        owner.learn(proposals, rewards(proposals))
        ends.append(weights(owner))
    assert same(*ends)


def test_a_policy_learns_to_write_what_is_rewarded(build):
    """Twelve updates towards replies that end at once."""
    settings = LearnerSettings(learning_rate=1e-2, critic_learning_rate=1e-2, micro_batch=18, critic="shared")
    language = build.language(initializer_range=0.05)
    owner = LanguageModelPolicy(language, SAMPLING, settings)
    lengths = []
    for step in range(12):
        proposals = owner.propose(PROMPTS * 6, step)
        lengths.append(sum(len(p.reply_tokens) for p in proposals) / len(proposals))
        owner.learn(proposals, [-float(len(p.reply_tokens)) for p in proposals])
    assert lengths[0] > 8
    assert lengths[-1] < 0.5 * lengths[0]
