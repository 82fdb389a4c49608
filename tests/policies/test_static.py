"""The loop in fixed arrays: what a GPU replays, run here unrecorded."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies import sampling, static  # noqa: E402

SETTINGS = sampling.SamplingSettings(temperature=1.0, top_p=1.0, top_k=0, presence_penalty=0.5, new_tokens=50)
PROMPTS = [(1, 2, 3), (4,), (5, 6, 7, 8)]


def sampler(model, stops, engine="graph"):
    return sampling.Sampler(model, sampling.SamplingSettings(**{**SETTINGS.__dict__, "engine": engine}), stops)


def test_arrays_are_made_once_for_batches_of_one_shape_and_give_the_same_again(build):
    ours = sampler(build.llama(), [3])
    first = ours.sample(PROMPTS, 0)
    loop, place = ours._loop, ours._loop.cache.keys[0].data_ptr()
    assert ours.sample([(9, 9), (2,), (1, 1, 1, 1)], 3) != first
    assert ours.sample(PROMPTS, 0) == first
    assert ours._loop is loop
    assert loop.cache.keys[0].data_ptr() == place


def test_a_smaller_batch_uses_the_same_arrays_and_its_replies_do_not_change(build):
    ours, plain = sampler(build.llama(), [3]), sampler(build.llama(), [3], "eager")
    ours.sample(PROMPTS * 2, 0)
    loop = ours._loop
    few = ours.sample(PROMPTS + PROMPTS[:1], 4)
    assert ours._loop is loop
    assert [one.tokens for one in few] == [one.tokens for one in plain.sample(PROMPTS + PROMPTS[:1], 4)]
    assert len(few) == 4
    ours.sample(PROMPTS[:1], 0)  # would waste most of the arrays
    assert ours._loop is not loop


@pytest.mark.parametrize("view", [4, 16, 256])
def test_how_much_of_the_cache_attention_reads_changes_no_reply(build, view, monkeypatch):
    monkeypatch.setattr(static, "VIEW", view)
    monkeypatch.setattr(sampling, "VIEW", view)
    found = sampler(build.llama(), [3]).sample(PROMPTS, 0)
    expected = sampler(build.llama(), [3], "eager").sample(PROMPTS, 0)
    assert [one.tokens for one in found] == [one.tokens for one in expected]


def test_the_loop_ends_soon_after_the_last_row(build):
    ours = sampler(build.llama(), range(61))  # every token ends a turn
    samples = ours.sample(PROMPTS, 0)
    assert [len(sample.tokens) for sample in samples] == [1, 1, 1]
    assert int(ours._loop.time) <= static.PATIENCE


def test_a_step_depends_on_no_python_number_that_changes(build):
    """What a recording needs: the same call, made again without touching Python state, goes one token further."""
    ours = sampler(build.llama(), [])
    ours.sample(PROMPTS, 0)
    loop = ours._loop
    packed = static.Prompts(PROMPTS, torch.device("cpu"))
    with torch.no_grad():
        computed, logits = static.read_prompts(loop.model, packed)
        loop._reset(packed, computed, loop.uniforms.clone())
        loop.choose(logits[packed.row])
        loop.cache.view = loop.capacity
        for _ in range(5):
            loop.step()
    expected = sampler(build.llama(), [], "eager").sample(PROMPTS, 0)
    assert loop.tokens[:, :6].tolist() == [list(sample.tokens[:6]) for sample in expected]


def test_a_model_that_was_broken_for_a_while_leaves_nothing_behind(build):
    model = build.llama()
    ours = sampler(model, [3])
    before = ours.sample(PROMPTS, 0)
    weight = model.model.layers[0].self_attn.k_proj.weight
    saved = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(float("nan"))
    with pytest.raises(InputError, match="not finite"):
        ours.sample(PROMPTS, 0)
    with torch.no_grad():
        weight.copy_(saved)
    assert ours.sample(PROMPTS, 0) == before
