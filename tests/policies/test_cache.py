"""The cache holds what was written, and grouped attention equals attention with repeated heads."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
transformers = pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.policies import cache  # noqa: E402


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_tokens_fed_one_by_one_give_the_logits_of_all_at_once(build, kind):
    model = getattr(build, kind)()
    tokens = torch.randint(0, build.vocabulary, (3, 9))
    store = cache.RowCache(2, 9)
    cache.group_attention(model)
    with torch.no_grad():
        for t in range(9):
            place = torch.full((3, 1), t)
            logits = model(tokens[:, t : t + 1], position_ids=place, past_key_values=store, use_cache=True).logits
            store.length += 1
        expected = model(tokens).logits[:, -1]
    torch.testing.assert_close(logits[:, -1], expected, atol=1e-4, rtol=1e-4)


def test_dropping_rows_keeps_the_others_as_they_were():
    store = cache.RowCache(1, 6)
    keys, values = torch.randn(4, 2, 3, 5), torch.randn(4, 2, 3, 5)
    store.update(keys, values, 0)
    store.length = 3
    store.keep_rows(torch.tensor([2, 0]))
    new = torch.randn(2, 2, 1, 5)
    found, _ = store.update(new, new, 0)
    assert torch.equal(found[:, :, :3], keys[[2, 0]])
    assert torch.equal(found[:, :, 3:], new)


def test_a_fixed_column_is_written_in_place():
    store = cache.RowCache(1, 8)
    store.column = torch.tensor([5])
    store.view = 6
    new = torch.randn(2, 1, 1, 3)
    keys, _ = store.update(new, new, 0)
    assert keys.shape == (2, 1, 6, 3)
    assert torch.equal(keys[:, :, 5:], new)
    assert store.keys[0].shape[2] == 8


@pytest.mark.parametrize("masked", [True, False])
def test_grouped_attention_equals_attention_with_repeated_heads(masked):
    query, keys, values = torch.randn(3, 8, 1, 4), torch.randn(3, 2, 7, 4), torch.randn(3, 2, 7, 4)
    mask = (torch.rand(3, 1, 1, 7) > 0.4) | (torch.arange(7) == 0) if masked else None
    found, _ = cache.grouped_attention(None, query, keys, values, mask, scaling=0.3)
    wide = (array.repeat_interleave(4, dim=1) for array in (keys, values))
    expected = torch.nn.functional.scaled_dot_product_attention(query, *wide, attn_mask=mask, scale=0.3)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_only_models_that_look_at_everything_use_this_cache(build):
    assert cache.attends_to_all(build.llama().config)
    assert cache.attends_to_all(build.qwen().config)
    assert not cache.attends_to_all(transformers.MistralConfig(sliding_window=8))
    assert not cache.attends_to_all(transformers.Gemma2Config())


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_a_plain_model_shares_prefixes(build, kind):
    assert cache.shares_prefixes(getattr(build, kind)())


def test_a_model_whose_attention_is_not_the_fused_one_shares_no_prefixes(build):
    assert not cache.shares_prefixes(build.llama(attn_implementation="eager"))


def test_a_model_that_keeps_options_from_its_attention_shares_no_prefixes(build):
    model = build.llama()
    for layer in model.model.layers:
        inner = layer.self_attn.forward
        layer.self_attn.forward = lambda *a, _inner=inner, **k: _inner(*a, **{n: k[n] for n in k if n != "prefix_tree"})
    assert not cache.shares_prefixes(model)
