"""Sampling: the distribution it draws from, the log-probabilities it reports, and that neighbours do not matter."""

import dataclasses
import math

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
transformers = pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402
from rewardrate.policies.sampling import Sampler, SamplingSettings, draw, uniform_rows  # noqa: E402

PAPER = SamplingSettings(new_tokens=30)
OPEN = SamplingSettings(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.0, new_tokens=30)
PREFIX = tuple(range(20, 40))
PROMPTS = [(1, 2, 3), (4,), (1, 2, 3), (5, 6, 7, 8, 9), (9, 9)]
ENGINES = ["eager", "graph"]


def with_engine(settings, engine, **changes):
    return dataclasses.replace(settings, engine=engine, **changes)


def slow_draws(logits, settings, seen=()):
    """Chance of every token by the definition, one at a time."""
    z = [x / settings.temperature for x in logits.tolist()]
    for token in seen:
        z[token] -= settings.presence_penalty / settings.temperature
    order = sorted(range(len(z)), key=lambda token: -z[token])
    order = order[: settings.top_k] if settings.top_k else order
    weight = {token: math.exp(z[token] - z[order[0]]) for token in order}
    total, kept, before = sum(weight.values()), {}, 0.0
    for token in order:
        if before < settings.top_p:
            kept[token] = weight[token]
        before += weight[token] / total
    return {token: value / sum(kept.values()) for token, value in kept.items()}


@pytest.mark.parametrize(
    "settings",
    [OPEN, PAPER, dataclasses.replace(OPEN, top_p=0.6), dataclasses.replace(OPEN, top_k=3, temperature=1.7)],
    ids=["open", "paper", "top-p", "top-k"],
)
@pytest.mark.parametrize("seen", [(), (0, 4, 7)])
def test_the_chances_of_a_draw_are_those_of_the_definition(settings, seen):
    logits = torch.randn(11, generator=torch.Generator().manual_seed(3)) * 2
    expected = slow_draws(logits, settings, seen if settings.presence_penalty else ())
    n = 20_000
    uniform = (torch.arange(n, dtype=torch.float64) + 0.5) / n  # a fine grid: counts are the chances to within 2 / n
    mask = torch.zeros(n, 11, dtype=torch.bool)
    mask[:, list(seen)] = True
    token, logprob, drawn = draw(logits.expand(n, 11), uniform, mask if settings.presence_penalty else None, settings)
    counts = torch.bincount(token, minlength=11) / n
    plain = (logits / settings.temperature).log_softmax(-1)
    for k in range(11):
        assert float(counts[k]) == pytest.approx(expected.get(k, 0.0), abs=2 / n)
    for k in expected:
        at = int((token == k).nonzero()[0]) if counts[k] else None
        if at is not None:
            assert float(logprob[at]) == pytest.approx(float(plain[k]), abs=1e-5)
            assert float(drawn[at]) == pytest.approx(math.log(expected[k]), abs=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", [PAPER, OPEN], ids=["paper", "open"])
@pytest.mark.parametrize("prefix", [(), PREFIX], ids=["apart", "shared-prefix"])
def test_a_reply_does_not_depend_on_its_neighbours(build, engine, settings, prefix):
    model = build.llama()
    prompts = [prefix + prompt for prompt in PROMPTS]
    together = Sampler(model, with_engine(settings, engine), [3, 7]).sample(prompts, seed=5)
    for size in (1, 2, 3):
        cut = Sampler(model, with_engine(settings, "eager", rows_at_once=size), [3, 7]).sample(prompts, seed=5)
        assert [one.tokens for one in cut] == [one.tokens for one in together]


@pytest.mark.parametrize("kind", ["llama", "qwen"])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_reply_is_what_a_plain_loop_without_cache_or_padding_draws(build, kind, engine):
    model = getattr(build, kind)()
    samples = Sampler(model, with_engine(PAPER, engine), [3, 7]).sample(PROMPTS, seed=1)
    for row, (prompt, sample) in enumerate(zip(PROMPTS, samples, strict=True)):
        uniforms = uniform_rows(1, [row], 30)[0]
        reply = []
        for t in range(30):
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *reply]])).logits[0, -1]
            seen = torch.zeros(1, build.vocabulary, dtype=torch.bool)
            seen[0, reply] = True
            token, logprob, drawn = draw(logits.unsqueeze(0), torch.tensor([uniforms[t]]), seen, PAPER)
            reply.append(int(token))
            assert sample.logprobs[t] == pytest.approx(float(logprob), abs=1e-4)
            assert sample.drawn_logprobs[t] == pytest.approx(float(drawn), abs=1e-4)
            if reply[-1] in (3, 7):
                break
        assert sample.tokens == tuple(reply)
        assert sample.finished == (reply[-1] in (3, 7))


@pytest.mark.parametrize("engine", ENGINES)
def test_same_seed_same_replies_and_another_seed_others(build, engine):
    sampler = Sampler(build.llama(), with_engine(OPEN, engine), [3])
    assert sampler.sample(PROMPTS, 7) == sampler.sample(PROMPTS, 7)
    assert [s.tokens for s in sampler.sample(PROMPTS, 7)] != [s.tokens for s in sampler.sample(PROMPTS, 8)]


def test_equal_prompts_get_different_replies(build):
    replies = Sampler(build.llama(), OPEN, [3]).sample([(1, 2)] * 8, 0)
    assert len({reply.tokens for reply in replies}) == 8


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_that_change_between_batches_are_seen(build, engine):
    model = build.llama()
    sampler = Sampler(model, with_engine(OPEN, engine), [3])
    before = sampler.sample(PROMPTS, 7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    assert sampler.sample(PROMPTS, 7) == Sampler(model, with_engine(OPEN, engine), [3]).sample(PROMPTS, 7)
    assert sampler.sample(PROMPTS, 7) != before


def test_a_model_with_a_sliding_window_is_sampled_with_the_librarys_cache():
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=6,
        initializer_range=0.3,
    )
    model = transformers.MistralForCausalLM(config).eval()
    sampler = Sampler(model, PAPER, [3])
    assert not sampler.plain
    samples = sampler.sample(PROMPTS, 0)
    prompt, sample = PROMPTS[3], samples[3]
    table = (model(torch.tensor([[*prompt, *sample.tokens]])).logits[0] / 0.7).log_softmax(-1).detach()
    expected = [float(table[len(prompt) - 1 + t, token]) for t, token in enumerate(sample.tokens)]
    assert list(sample.logprobs) == pytest.approx(expected, abs=1e-4)


def test_the_learner_finds_the_same_log_probabilities_as_the_sampler_reported(build):
    model = build.llama()
    samples = Sampler(model, PAPER, [3, 7]).sample(PROMPTS, 0)
    rows = [Experience(p, s.tokens, 1.0, s.logprobs) for p, s in zip(PROMPTS, samples, strict=True)]
    _, metrics = Learner(model, LearnerSettings(), temperature=0.7).prepare(rows)
    assert metrics["sampler_gap"] < 1e-5


def test_truncation_makes_drawn_tokens_likelier_than_ppo_thinks_and_without_it_both_agree(build):
    model = build.llama(initializer_range=0.1)
    plain = dataclasses.replace(PAPER, presence_penalty=0.0)
    for sample in Sampler(model, plain, [3]).sample(PROMPTS, 0):
        assert all(
            drawn >= logprob - 1e-6 for drawn, logprob in zip(sample.drawn_logprobs, sample.logprobs, strict=True)
        )
    for sample in Sampler(model, OPEN, [3]).sample(PROMPTS, 0):
        assert list(sample.drawn_logprobs) == pytest.approx(list(sample.logprobs), abs=1e-5)


def test_top_k_of_one_takes_the_likeliest_token_always(build):
    model = build.llama()
    sample = Sampler(model, dataclasses.replace(OPEN, top_k=1), [3]).sample([(1, 2)], 0)[0]
    logits = model(torch.tensor([[1, 2, *sample.tokens]])).logits[0]
    assert list(sample.tokens) == logits.argmax(-1)[1:-1].tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_replies_end_where_the_models_context_ends(build, engine):
    model = build.llama(max_position_embeddings=24)
    samples = Sampler(model, with_engine(OPEN, engine), []).sample([tuple(range(20)), (1, 2)], 0)
    assert [len(sample.tokens) for sample in samples] == [4, 22]
    with pytest.raises(InputError, match="shorter than the model's 24 tokens"):
        Sampler(model, OPEN, []).sample([tuple(range(24))], 0)


def test_an_empty_prompt_a_negative_seed_and_broken_weights_are_refused(build):
    model = build.llama()
    with pytest.raises(InputError, match="at least one token"):
        Sampler(model, OPEN, [3]).sample([(1,), ()], 0)
    with pytest.raises(InputError, match="seed"):
        Sampler(model, OPEN, [3]).sample([(1,)], -1)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="not finite"):
        Sampler(model, OPEN, [3]).sample([(1,)], 0)


def test_no_prompts_no_samples(build):
    assert Sampler(build.llama(), OPEN, [3]).sample([], 0) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_recorded_steps_draw_what_plain_steps_draw(build):
    model = build.llama().cuda()
    settings = dataclasses.replace(PAPER, new_tokens=200)
    plain = Sampler(model, with_engine(settings, "eager"), [3]).sample(PROMPTS * 4, 0)
    for _ in range(2):  # the second batch replays what the first recorded
        again = Sampler(model, with_engine(settings, "graph"), [3]).sample(PROMPTS * 4, 0)
        same = sum(one.tokens == other.tokens for one, other in zip(plain, again, strict=True))
        assert same >= 18  # of 20: another kernel may round a logit differently where a draw falls on that bit
