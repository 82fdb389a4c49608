"""Reading prompts: the shared prefix, the padding and the copies change no logit."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")


from rewardrate.policies import decoding  # noqa: E402

CPU = torch.device("cpu")
PREFIX = tuple(range(30, 55))
CASES = {
    "one": [(1, 2, 3)],
    "equal": [(1, 2, 3)] * 3,
    "unlike": [(1, 2, 3), (4,), (1, 2, 3), (5, 6, 7, 8)],
    "shared": [(*PREFIX, 1, 2), (*PREFIX, 3), (*PREFIX, 4, 5, 6)],
    "same-length": [(1, 2), (3, 4)],
    "prefix-of-another": [PREFIX, (*PREFIX, 1)],
}


@pytest.mark.parametrize("prompts", CASES.values(), ids=CASES)
@pytest.mark.parametrize("tokens", [2, 1 << 14], ids=["some-at-a-time", "at-once"])
@pytest.mark.parametrize("kind", [decoding.RowDecoder, decoding.HubDecoder])
def test_every_row_has_the_logits_it_would_have_alone(build, prompts, tokens, kind, monkeypatch):
    monkeypatch.setattr(decoding, "PREFILL_TOKENS", tokens)
    model = build.llama()
    decoder = kind(model, prompts, new_tokens=5)
    with torch.no_grad():
        steps = [decoder.start()] + [decoder.step(torch.tensor([t + i for i in range(len(prompts))])) for t in (7, 9)]
        for i, prompt in enumerate(prompts):
            for step, extra in zip(steps, [(), (7 + i,), (7 + i, 9 + i)], strict=True):
                expected = model(torch.tensor([[*prompt, *extra]])).logits[0, -1]
                torch.testing.assert_close(step[i], expected, atol=1e-4, rtol=1e-4)


def test_the_other_rows_do_not_change_when_rows_leave(build):
    model, prompts = build.llama(), CASES["unlike"]
    decoder = decoding.RowDecoder(model, prompts, new_tokens=5)
    with torch.no_grad():
        decoder.start()
        decoder.step(torch.tensor([1, 2, 3, 4]))
        decoder.keep(torch.tensor([1, 3]))
        logits = decoder.step(torch.tensor([8, 9]))
        for row, prompt, reply in ((0, prompts[1], (2, 8)), (1, prompts[3], (4, 9))):
            expected = model(torch.tensor([[*prompt, *reply]])).logits[0, -1]
            torch.testing.assert_close(logits[row], expected, atol=1e-4, rtol=1e-4)


def test_equal_prompts_are_read_once_and_a_shared_prefix_is_read_once():
    assert len(decoding.Prompts(CASES["equal"], CPU).rest) == 1
    shared = decoding.Prompts(CASES["shared"], CPU)
    assert (shared.shared, shared.end) == (25, 28)
