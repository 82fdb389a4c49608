"""The last layer where it is asked for: the same output and the same gradient as the whole network, and less work."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
transformers = pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.policies import network, trimmed  # noqa: E402
from rewardrate.policies.cache import takes_forests  # noqa: E402

CPU = torch.device("cpu")
STEM = tuple(range(20))
PROMPTS = [(*STEM, 1), (*STEM, 2, 3), (*STEM, 1), (*STEM, 4)]
REPLIES = [(5, 6, 7), (8,), (9,), (10, 11)]


def outputs(model, monkeypatch, known):
    """Output wherever a reply token is predicted, and the gradient of a number made of it."""
    monkeypatch.setattr(trimmed, "knows", lambda network: known)
    packed = network.pack(PROMPTS, REPLIES, CPU, share=True)
    hidden = network.reply_hidden(network.trunk(model), packed)
    weight = torch.sin(torch.arange(hidden.numel(), dtype=hidden.dtype)).reshape(hidden.shape)
    return [hidden, *torch.autograd.grad((hidden * weight).sum(), network.trunk(model).parameters())]


@pytest.mark.parametrize("kind", ["llama", "qwen"])
@pytest.mark.parametrize("again", [False, True], ids=["kept", "recomputed"])
def test_output_and_gradient_are_those_of_the_whole_network(build, kind, again, monkeypatch):
    model = getattr(build, kind)().double()
    assert takes_forests(model)
    if again:
        model.train()
        network.recompute_layers(model)
    both = [outputs(model, monkeypatch, known) for known in (True, False)]
    for ours, whole in zip(*both, strict=True):
        torch.testing.assert_close(ours, whole, atol=1e-6, rtol=1e-6)  # the norms of these networks round to float32


def test_it_is_used_for_networks_that_are_put_together_like_that_and_for_no_others(build):
    assert trimmed.knows(network.trunk(build.llama()))
    assert trimmed.knows(network.trunk(build.qwen()))
    shape = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = transformers.Qwen3Config(**shape, num_attention_heads=4, num_key_value_heads=2, head_dim=8)
    assert not trimmed.knows(transformers.Qwen3ForCausalLM(config).base_model)


def test_tokens_that_nobody_asks_for_go_through_no_inner_network_of_the_last_layer(build):
    model = build.llama()
    assert takes_forests(model)
    seen = []
    model.model.layers[-1].mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))
    packed = network.pack(PROMPTS, REPLIES, CPU, share=True)
    network.reply_hidden(network.trunk(model), packed)
    assert seen == [packed.tokens.shape[1], 6]
