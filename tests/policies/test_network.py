"""Scores of reply tokens equal those of the whole model, however rows are padded and logits are cut."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
transformers = pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies import network  # noqa: E402
from rewardrate.policies.cache import shares_prefixes  # noqa: E402

CPU = torch.device("cpu")
PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8, 9)]
REPLIES = [(10, 11), (12, 13, 14, 15), (16,)]


def alone(model, prompt, reply, temperature):
    """Log-probabilities and entropies of one row by the obvious way: no padding, all logits."""
    logits = model(torch.tensor([[*prompt, *reply]])).logits[0] / temperature
    table = logits.log_softmax(-1)
    at = range(len(prompt) - 1, len(prompt) - 1 + len(reply))
    scores = torch.stack([table[i, token] for i, token in zip(at, reply, strict=True)])
    return scores, torch.stack([-(table[i].exp() * table[i]).sum() for i in at])


def together(model, temperature):
    packed = network.pack(PROMPTS, REPLIES, CPU)
    hidden = network.reply_hidden(network.trunk(model), packed)
    return network.reply_scores(hidden, network.Head(model), packed.replies, temperature)


@pytest.mark.parametrize("kind", ["llama", "qwen"])
@pytest.mark.parametrize("elements", [1, 200, 1 << 26])
def test_padded_and_chunked_scores_equal_each_row_alone(build, kind, elements, monkeypatch):
    monkeypatch.setattr(network, "HEAD_ELEMENTS", elements)
    model = getattr(build, kind)()
    scores, entropies = together(model, 0.7)
    expected = [alone(model, *row, 0.7) for row in zip(PROMPTS, REPLIES, strict=True)]
    torch.testing.assert_close(scores, torch.cat([row[0] for row in expected]), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(entropies, torch.cat([row[1] for row in expected]), atol=2e-5, rtol=1e-5)


def test_chunks_that_are_made_again_in_the_backward_pass_give_the_same_gradient(build, monkeypatch):
    gradients = []
    for elements in (1, 1 << 26):
        monkeypatch.setattr(network, "HEAD_ELEMENTS", elements)
        model = build.llama()
        scores, entropies = together(model, 0.7)
        (scores.sum() + entropies.sum()).backward()
        gradients.append([p.grad for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_what_stands_behind_a_row_changes_nothing_in_it(build):
    model = build.llama()
    packed = network.pack(PROMPTS, REPLIES, CPU)
    before = network.reply_hidden(network.trunk(model), packed)
    packed.tokens[0, 5:] = 42
    packed.tokens[1, 5:] = 17
    torch.testing.assert_close(network.reply_hidden(network.trunk(model), packed), before, atol=0, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_replies_behind_one_copy_of_their_prompt_are_scored_as_if_alone(build, kind):
    model = getattr(build, kind)()
    rows = [((1, 2, 3), (9, 8)), ((4,), (5,)), ((1, 2, 3), (7, 7, 7, 7)), ((4,), (6, 6)), ((1, 2, 3), (10,))]
    assert shares_prefixes(model)
    packed = network.pack(*zip(*rows, strict=True), CPU, share=True)
    assert packed.tokens.tolist() == [[1, 2, 3, 9, 8, 7, 7, 7, 7, 10, 4, 5, 6, 6]]
    hidden = network.reply_hidden(network.trunk(model), packed)
    scores, _ = network.reply_scores(hidden, network.Head(model), packed.replies, 0.7)
    expected = torch.cat([alone(model, *row, 0.7)[0] for row in rows])
    torch.testing.assert_close(scores, expected, atol=2e-5, rtol=1e-5)


def test_rows_that_share_tokens_are_refused_by_an_attention_that_would_mix_them(build):
    packed = network.pack([(1,), (1,)], [(2,), (3,)], CPU, share=True)
    with pytest.raises(ValueError, match="would mix them"):
        network.reply_hidden(network.trunk(build.llama()), packed)


def test_log_probabilities_alone_are_those_of_the_scores_bit_for_bit(build, monkeypatch):
    model = build.llama()
    packed = network.pack(PROMPTS, REPLIES, CPU)
    hidden, head = network.reply_hidden(network.trunk(model), packed), network.Head(model)
    for elements in (1, 200, 1 << 26):
        monkeypatch.setattr(network, "HEAD_ELEMENTS", elements)
        both = network.reply_scores(hidden, head, packed.replies, 0.7)[0]
        assert torch.equal(network.reply_logprobs(hidden, head, packed.replies, 0.7), both)


def capped(**changes):
    torch.manual_seed(0)
    shape = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
    config = transformers.Gemma2Config(
        **shape, num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager", **changes
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def test_a_model_that_caps_its_logits_is_scored_with_the_cap():
    model = capped(final_logit_softcapping=2.0, initializer_range=0.3)
    packed = network.pack(PROMPTS[:1], REPLIES[:1], CPU)
    hidden = network.reply_hidden(network.trunk(model), packed)
    scores, _ = network.reply_scores(hidden, network.Head(model), packed.replies, 1.0)
    torch.testing.assert_close(scores, alone(model, PROMPTS[0], REPLIES[0], 1.0)[0], atol=1e-5, rtol=1e-5)


def test_a_model_that_does_something_unknown_to_its_logits_is_refused():
    model = capped(final_logit_softcapping=2.0, initializer_range=0.3)
    head = network.Head(model)
    head.cap = None
    with pytest.raises(InputError, match="it changes its logits"):
        head.check(model)


def test_a_new_critic_values_everything_at_zero_and_leaves_the_policy_alone(build):
    model = build.llama()
    critic = network.own_critic(model)
    assert critic(network.pack(PROMPTS, REPLIES, CPU)).tolist() == [0.0] * 7
    ours = {id(p) for p in model.parameters()}
    assert not ours & {id(p) for p in critic.parameters()}


def test_the_reference_stays_where_it_was_when_the_policy_moves(build):
    model = build.llama()
    reference = network.ReferencePolicy(model)
    packed = network.pack(PROMPTS, REPLIES, CPU)
    with reference() as (trunk, head):
        before = network.reply_scores(network.reply_hidden(trunk, packed), head, packed.replies, 1.0)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    with reference() as (trunk, head):
        after = network.reply_scores(network.reply_hidden(trunk, packed), head, packed.replies, 1.0)[0]
    assert torch.equal(before, after)
    assert not torch.equal(before, together(model, 1.0)[0])
    assert not any(p.requires_grad for p in trunk.parameters())


def test_dropout_is_silenced(build):
    model = build.llama(attention_dropout=0.5)
    model.train()
    network.silence_dropout(model)
    assert torch.equal(together(model, 1.0)[0], together(model, 1.0)[0])


def test_the_half_copy_keeps_ties_and_the_precision_of_positions(build):
    model = build.llama()
    small = network.half_copy(model)
    assert small.get_input_embeddings().weight is small.get_output_embeddings().weight
    assert {p.dtype for p in small.parameters()} == {torch.bfloat16}
    assert torch.equal(small.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    tokens = torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(small(tokens).logits.float(), model(tokens).logits, atol=0.3, rtol=0.1)
