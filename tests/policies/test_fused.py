"""A fused step gives what the library's network gives. On a CPU: who may use it. On a GPU: the numbers."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from rewardrate.errors import InputError
from rewardrate.policies.fused import _parts, fusible
from rewardrate.policies.sampling import Sampler, SamplingSettings

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "attn_implementation": "sdpa",
}
PROMPTS = [[5, 6, 7], list(range(5, 45)), list(range(5, 22)), list(range(5, 45)), [9] * 70]


def network(kind, **changes):
    torch.manual_seed(0)
    config, model = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[kind]
    made = model(config(**{**SHAPE, **changes})).eval()
    torch.nn.init.normal_(made.lm_head.weight, std=0.3)
    for layer in made.model.layers:
        if layer.self_attn.q_proj.bias is not None:
            torch.nn.init.normal_(layer.self_attn.q_proj.bias, std=0.1)
    return made


def test_without_a_gpu_it_is_not_used_and_asking_for_it_says_why(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    model = network("llama")
    assert not fusible(model)
    sampler = Sampler(model, SamplingSettings(), [0])
    assert (sampler.engine, sampler.why) == ("eager", "there is no GPU")
    with pytest.raises(InputError, match=r"sampling.engine = 'fused': it needs a plain Llama or Qwen2 model, a GPU"):
        Sampler(model, SamplingSettings(engine="fused"), [0])


def test_attention_is_cut_into_enough_parts_to_fill_a_gpu_and_no_more():
    assert _parts(128 * 3, 1024) == 1
    assert _parts(16 * 2, 4096) == 16
    assert _parts(64 * 2, 2048) == 4
    assert _parts(1, 128) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_only_networks_whose_step_is_known_can_be_fused():
    other = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_embd=96, n_layer=1, n_head=6)).cuda().eval()
    assert not fusible(other)
    assert not fusible(network("llama", head_dim=48).cuda())
    assert fusible(network("llama").cuda())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_same_tokens_with_the_same_log_probabilities_as_the_plain_way(kind):
    """fp32, rows of unlike length, a presence penalty; a second batch after the weights have changed in place."""
    model = network(kind).cuda()
    settings = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "presence_penalty": 0.5, "new_tokens": 60}
    ways = {way: Sampler(model, SamplingSettings(engine=way, **settings), [96]) for way in ("eager", "fused")}
    for seed in (3, 4):
        plain, fused = (way.sample(PROMPTS, seed) for way in ways.values())
        for one, two in zip(plain, fused, strict=True):
            assert one.tokens == two.tokens
            assert one.logprobs == pytest.approx(two.logprobs, abs=2e-4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.05)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("rows", "kind"), [(3, "qwen2"), (150, "llama")])
def test_in_half_precision_log_probabilities_differ_by_rounding_only(rows, kind):
    """The same tokens are scored by a pass of the library's network in fp32."""
    model = network(kind, hidden_size=256, intermediate_size=512, num_attention_heads=4, head_dim=64).cuda()
    half = network(kind, hidden_size=256, intermediate_size=512, num_attention_heads=4, head_dim=64).cuda().bfloat16()
    settings = SamplingSettings(1.0, 1.0, 0, 0.0, new_tokens=300, engine="fused")
    prompts = [PROMPTS[row % len(PROMPTS)] for row in range(rows)]
    for prompt, reply in zip(prompts, Sampler(half, settings, []).sample(prompts, 1), strict=True):
        tokens = torch.tensor([[*prompt, *reply.tokens]], device="cuda")
        with torch.no_grad():
            logits = model(tokens).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        truth = logits.gather(1, tokens[0, len(prompt) :].unsqueeze(1)).squeeze(1)
        errors = (truth - torch.tensor(reply.logprobs, device="cuda")).abs()
        assert errors.mean() < 0.03
        assert errors.max() < 0.3
