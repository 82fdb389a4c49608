"""One contract for every sampler: the built-in one, vLLM where it is installed, and a stand-in for it elsewhere.

vLLM itself starts once for all tests: it takes most of a minute, and a process can hold one engine at a time.
"""

import ast
import dataclasses
import importlib
import inspect
import os
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

import vllm_standin  # noqa: E402
from rewardrate.errors import InfrastructureError, InputError, MissingExtra  # noqa: E402
from rewardrate.policies import LanguageModelPolicy, LearnerSettings  # noqa: E402
from rewardrate.policies.learner import Experience, Learner  # noqa: E402
from rewardrate.policies.models import LoraSettings, add_lora  # noqa: E402
from rewardrate.policies.sampling import Sampler, SamplingSettings  # noqa: E402
from rewardrate.policies.vllm import VllmSampler  # noqa: E402

OPEN = SamplingSettings(temperature=0.8, top_p=1.0, top_k=0, presence_penalty=0.0, new_tokens=20, memory_share=0.1)
PAPER = dataclasses.replace(OPEN, temperature=0.7, top_p=0.8, top_k=20, presence_penalty=1.5)
LIKELIEST = dataclasses.replace(OPEN, top_k=1)
PROMPTS = [(1, 2, 3), (4,), (1, 2, 3), (5, 6, 7, 8, 9)]
STOPS = [3, 7]


def roomy(build):
    """A model whose heads are as wide as kernels want, with weights that half precision does not change."""
    model = build.llama(hidden_size=256, num_attention_heads=4, intermediate_size=128)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    return model


@pytest.fixture(scope="module")
def started(build):
    """vLLM's sampler, and the weights that it began with."""
    pytest.importorskip("vllm", reason="vLLM is not installed: the contract is NOT tried on it here")
    if not torch.cuda.is_available():
        pytest.skip("vLLM's wheel has no kernels for CPUs, and no GPU is here: the contract is NOT tried on it")
    model = roomy(build).cuda()
    sampler = VllmSampler(model, dataclasses.replace(OPEN, engine="vllm"), STOPS)
    yield sampler, {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sampler.close()


@pytest.fixture(params=["builtin", "standin", "vllm"])
def engine(request, monkeypatch, build):
    """(make a sampler, a model that it can hold, by how much its arithmetic may miss the largest logit).

    vLLM computes in half precision and this model's logits are as large as 15: on an H200 its log-probabilities missed
    the learner's by 0.067 on average, those of Qwen2.5-Coder-1.5B by 0.003.
    """
    if request.param == "vllm":
        sampler, weights = request.getfixturevalue("started")
        sampler.model.load_state_dict(weights)

        def change(settings):
            sampler.settings = dataclasses.replace(settings, engine="vllm")
            return sampler

        return change, sampler.model, 0.5
    model = roomy(build)
    if request.param == "builtin":
        return lambda settings: Sampler(model, settings, STOPS), model, 1e-3
    monkeypatch.setitem(sys.modules, "vllm", vllm_standin)
    return lambda settings: VllmSampler(model, dataclasses.replace(settings, engine="vllm"), STOPS), model, 1e-3


def shortfall(model, prompt, reply):
    """By how much the logits of a reply's tokens fall short of the largest at their places; the largest of these."""
    ids = torch.tensor([[*prompt, *reply]], device=next(model.parameters()).device)
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    drawn = logits.gather(1, ids[0, len(prompt) :].unsqueeze(1)).squeeze(1)
    return float((logits.amax(1) - drawn).max())


@pytest.mark.parametrize("settings", [OPEN, PAPER], ids=["open", "paper"])
def test_every_prompt_gets_a_reply_that_ends_at_a_stop_or_at_the_limit(engine, build, settings):
    make, *_ = engine
    samples = make(settings).sample(PROMPTS, seed=1)
    assert len(samples) == len(PROMPTS)
    for sample in samples:
        assert 1 <= len(sample.tokens) <= settings.new_tokens
        assert all(0 <= token < build.vocabulary for token in sample.tokens)
        assert sample.finished == (sample.tokens[-1] in STOPS)
        assert sample.finished or len(sample.tokens) == settings.new_tokens
        assert not set(sample.tokens[:-1]) & set(STOPS)
        assert len(sample.drawn_logprobs) == len(sample.tokens)
        assert all(logprob <= 1e-4 for logprob in sample.drawn_logprobs)
        assert len(sample.logprobs) in (0, len(sample.tokens))


def test_the_seed_and_the_row_decide_the_reply(engine):
    make, *_ = engine
    sampler = make(OPEN)
    first, again, other = (sampler.sample(PROMPTS * 2, seed=seed) for seed in (1, 1, 2))
    assert [one.tokens for one in first] == [one.tokens for one in again]
    assert [one.tokens for one in first] != [one.tokens for one in other]
    assert first[0].tokens != first[2].tokens, "rows with the same prompt draw for themselves"


def test_what_is_reported_is_what_ppo_computes_when_nothing_is_cut(engine):
    make, model, tolerance = engine
    samples = make(OPEN).sample(PROMPTS, seed=3)
    rows = [Experience(p, s.tokens, 0.0, s.logprobs) for p, s in zip(PROMPTS, samples, strict=True)]
    learner = Learner(model, LearnerSettings(kl_coefficient=0.0), temperature=OPEN.temperature)
    _, metrics = learner.prepare(rows)
    assert metrics["sampler_gap"] < max(0.05, tolerance / 4)
    assert all(sample.logprobs == pytest.approx(sample.drawn_logprobs, abs=1e-4) for sample in samples)


def test_the_likeliest_token_always_when_only_one_may_be_drawn(engine):
    make, model, tolerance = engine
    for prompt, sample in zip(PROMPTS, make(LIKELIEST).sample(PROMPTS, seed=0), strict=True):
        assert shortfall(model, prompt, sample.tokens) < tolerance
        assert sample.finished or len(sample.tokens) == 20


def test_replies_follow_the_weights_when_they_move(engine):
    make, model, tolerance = engine
    sampler = make(LIKELIEST)
    before = sampler.sample(PROMPTS, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + 0.3 * torch.randn_like(parameter)).to(torch.bfloat16))
    after = sampler.sample(PROMPTS, seed=0)
    assert all(shortfall(model, p, sample.tokens) < tolerance for p, sample in zip(PROMPTS, after, strict=True))
    assert any(shortfall(model, p, sample.tokens) > 2 for p, sample in zip(PROMPTS, before, strict=True))


def test_a_prompt_near_the_end_of_the_context_gets_what_room_there_is(engine):
    make, *_ = engine
    sampler = make(OPEN)
    (sample,) = sampler.sample([(1,) * 254], seed=0)
    assert len(sample.tokens) <= 2
    with pytest.raises(InputError, match="shorter than the model's 256"):
        sampler.sample([(1,) * 256], seed=0)


def test_nonsense_is_refused_and_nothing_asked_is_nothing_drawn(engine):
    make, *_ = engine
    sampler = make(OPEN)
    with pytest.raises(InputError, match=r"prompts\[1\]"):
        sampler.sample([(1,), ()], seed=0)
    with pytest.raises(InputError, match="seed"):
        sampler.sample([(1,)], seed=-1)
    assert sampler.sample([], seed=0) == []


def test_weights_that_are_not_numbers_are_reported_and_not_sampled_from(engine):
    make, model, _ = engine
    sampler = make(OPEN)
    sampler.sample(PROMPTS[:1], seed=0)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(torch.nan)
    with pytest.raises((InputError, RuntimeError)):
        sampler.sample(PROMPTS[:1], seed=0)


# ---- only vLLM's


@pytest.fixture
def _standin(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", vllm_standin)


VLLM = dataclasses.replace(OPEN, engine="vllm")


@pytest.mark.usefixtures("_standin")
def test_it_sleeps_while_others_work_and_wakes_with_fresh_weights_in_the_documented_order(build):
    sampler = VllmSampler(build.llama(), VLLM, STOPS)
    for seed in range(2):
        sampler.sample(PROMPTS, seed)
    batch = ["wake weights", "reload_weights", "wake kv_cache", "reset", "generate", "sleep 2"]
    assert sampler._engine.calls == ["sleep 2", *batch, *batch]


@pytest.mark.usefixtures("_standin")
def test_what_is_loaded_after_it_has_started_is_what_the_first_reply_is_drawn_from(build):
    """A resumed run loads its checkpoint then."""
    model = roomy(build)
    sampler = VllmSampler(model, dataclasses.replace(LIKELIEST, engine="vllm"), STOPS)
    model.load_state_dict(
        build.llama(seed=1, hidden_size=256, num_attention_heads=4, intermediate_size=128).state_dict()
    )
    for prompt, sample in zip(PROMPTS, sampler.sample(PROMPTS, seed=0), strict=True):
        assert shortfall(model, prompt, sample.tokens) < 0.5, "all but what half precision takes from the weights"


@pytest.mark.usefixtures("_standin")
def test_its_engine_ends_when_the_sampler_is_closed_or_dropped(build):
    sampler = VllmSampler(build.llama(), VLLM, STOPS)
    engine = sampler._engine
    sampler.close()
    sampler.close()
    assert engine.calls == ["sleep 2", "shutdown"]
    sampler = VllmSampler(build.llama(), VLLM, STOPS)
    engine = sampler._engine
    del sampler
    assert engine.calls == ["sleep 2", "shutdown"], "the other arm of a run starts an engine of its own"


@pytest.mark.usefixtures("_standin")
def test_an_engine_that_fails_on_the_way_is_not_charged_and_said_in_one_line(build):
    sampler = VllmSampler(build.llama(), VLLM, STOPS)
    sampler._engine.generate = None  # as if its process had died
    with pytest.raises(InfrastructureError, match=r"^vLLM failed \(TypeError: .*\); the same command resumes$"):
        sampler.sample(PROMPTS, seed=0)


@pytest.mark.usefixtures("_standin")
@pytest.mark.parametrize(("name", "value"), [("VLLM_USE_FLASHINFER_SAMPLER", "0"), ("VLLM_LOGGING_LEVEL", "WARNING")])
def test_kernels_that_are_never_used_and_lines_at_every_step_are_left_out_unless_asked_for(
    build, monkeypatch, name, value
):
    for asked, expected in ((None, value), ("1", "1")):
        monkeypatch.delenv(name, raising=False)
        if asked:
            monkeypatch.setenv(name, asked)
        VllmSampler(build.llama(), VLLM, STOPS)
        assert os.environ[name] == expected


@pytest.mark.usefixtures("_standin")
def test_a_temperature_that_vllm_would_change_is_refused(build):
    with pytest.raises(InputError, match=r"sampling.temperature = 0.005: .*0.01; for the likeliest, top_k = 1"):
        VllmSampler(build.llama(), dataclasses.replace(VLLM, temperature=0.005), STOPS)


@pytest.mark.usefixtures("_standin")
def test_when_tokens_are_cut_it_reports_no_log_probability_for_ppo_and_learning_from_it_is_refused(build):
    cut = dataclasses.replace(PAPER, engine="vllm")
    samples = VllmSampler(build.llama(), cut, STOPS).sample(PROMPTS, seed=0)
    assert {sample.logprobs for sample in samples} == {()}
    learner = Learner(build.llama(), LearnerSettings(old_logprobs="sampled"))
    with pytest.raises(InputError, match="reported none"):
        learner.update([Experience(p, s.tokens, 1.0, s.logprobs) for p, s in zip(PROMPTS, samples, strict=True)])


@pytest.mark.usefixtures("_standin")
def test_a_policy_samples_with_it_learns_and_samples_on(build):
    language = build.language()
    owner = LanguageModelPolicy(language, dataclasses.replace(VLLM, top_k=1), LearnerSettings(learning_rate=0.05))
    asked = [[{"role": "user", "content": "ab"}]] * 3
    for seed in range(3):
        proposals = owner.propose(asked, seed)
        prompt = proposals[0].prompt_tokens
        half = build.llama()
        half.load_state_dict({k: v.to(torch.bfloat16).float() for k, v in language.model.state_dict().items()})
        with torch.no_grad():
            first = int(half(torch.tensor([prompt])).logits[0, -1].argmax())
        assert proposals[0].reply_tokens[0] == first
        owner.learn(proposals, [1.0, -1.0, 0.0])


@pytest.mark.usefixtures("_standin")
def test_lora_is_refused(build):
    pytest.importorskip("peft", reason="optional")
    with pytest.raises(InputError, match="LoRA"):
        VllmSampler(add_lora(build.llama(), LoraSettings(rank=2)), VLLM, STOPS)


def test_without_vllm_the_command_that_adds_it_is_reported(build, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[vllm\]"):
        VllmSampler(build.llama(), VLLM, STOPS)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("no GPU\nwas found", 'use "auto"'),
        ("Free memory on device is less than desired", 'change sampling.memory_share, or use "auto"'),
    ],
)
def test_an_engine_that_does_not_start_is_a_mistake_of_the_recipe_told_in_one_line(build, monkeypatch, said, remedy):
    class Broken:
        SamplingParams = vllm_standin.SamplingParams

        @staticmethod
        def LLM(**options):
            raise RuntimeError(said)

    monkeypatch.setitem(sys.modules, "vllm", Broken)
    with pytest.raises(InputError, match=re.escape(f"did not start ({' '.join(said.split())}); {remedy}")):
        VllmSampler(build.llama(), VLLM, STOPS)


@pytest.mark.usefixtures("_standin")
@pytest.mark.parametrize(("name", "value"), [("presence_penalty", 2.5), ("temperature", 3.0)])
def test_what_vllm_refuses_though_we_do_not_is_reported_in_one_line(build, name, value):
    with pytest.raises(InputError, match=rf"sampling\.engine.*{name} must be in") as caught:
        VllmSampler(build.llama(), dataclasses.replace(VLLM, **{name: value}), STOPS)
    assert "\n" not in str(caught.value)


def test_the_built_in_sampler_does_not_pretend_to_be_it(build):
    with pytest.raises(InputError, match="VllmSampler"):
        Sampler(build.llama(), VLLM, STOPS)


# ---- every name of vLLM's that we use: docs/vllm.md lists it, and so do the calls in the source

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "src" / "rewardrate" / "policies" / "vllm.py").read_text()
TABLE = re.findall(r"^\| `(vllm[\w.]*)` \| (.+?) \|", (ROOT / "docs" / "vllm.md").read_text(), re.MULTILINE)
LISTED = {name: re.findall(r"`([\w.]+)`", words) for name, words in TABLE}


def used():
    """{callable: its keyword arguments} in the source of the sampler."""
    names = {"LLM": "vllm.LLM", "_parameters": "vllm.SamplingParams"}
    methods = ("generate", "sleep", "wake_up", "collective_rpc", "reset_prefix_cache")
    assert "self._engine.llm_engine.engine_core.shutdown" in SOURCE
    names |= {name: f"vllm.LLM.{name}" for name in methods}
    calls = [
        node
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return {names[call.func.attr]: {word.arg for word in call.keywords} for call in calls if call.func.attr in names}


def test_the_docs_list_every_call_and_every_argument_that_is_passed_to_vllm():
    calls = used()
    assert len(calls) == 7
    for name, arguments in calls.items():
        assert arguments <= set(LISTED[name]), name
    assert {"vllm.RequestOutput", "vllm.CompletionOutput", "vllm.LLM.llm_engine"} < set(LISTED)


def test_the_installed_vllm_knows_every_name_that_we_use():
    """Signatures alone, so that it needs no GPU. `LLM` hands what it does not name itself to `EngineArgs`."""
    vllm = pytest.importorskip("vllm", reason="vLLM is not installed: its names are NOT checked here")
    for name, arguments in used().items():
        path = name.split(".")[1:]
        found = vllm
        for word in path:
            found = getattr(found, word)
        known = set(inspect.signature(found).parameters)
        if name == "vllm.LLM":
            known |= set(inspect.signature(vllm.EngineArgs).parameters)
        assert arguments <= known, name
    worker = importlib.import_module("vllm.v1.worker.gpu_worker").Worker
    client = importlib.import_module("vllm.v1.engine.core_client").EngineCoreClient
    assert callable(worker.reload_weights)
    assert callable(client.shutdown)
