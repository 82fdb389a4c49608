"""What is written into columns comes back bit for bit, or is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.attempt import Proposal
from rewardrate.errors import InputError
from rewardrate.runlog import encoding

tokens = st.lists(st.integers(0, 2**31 - 1), max_size=20).map(tuple)
anything = st.text(st.characters(), max_size=50)  # with lone surrogates


def again(proposal):
    payload = encoding.pack(proposal, "proposal")
    return encoding.unpack(encoding.shown_reply(proposal), len(proposal.reply_tokens), proposal.seconds, payload)


@given(anything, tokens, tokens, st.lists(st.floats(-50, 0), max_size=20).map(tuple), st.booleans())
def test_a_proposal_comes_back_bit_for_bit(text, prompt, reply, logprobs, finished):
    proposal = Proposal(text, prompt, reply, logprobs, finished, 1.25)
    assert again(proposal) == proposal


@given(anything.filter(bool))
def test_a_refused_prompt_is_an_empty_proposal_and_the_reply_says_why(why):
    proposal = Proposal("", finished=True, seconds=0.5, refusal=why)
    assert encoding.shown_reply(proposal) == f"[no reply: {why}]"
    assert again(proposal) == proposal


def test_without_its_payload_a_proposal_is_its_text_and_seconds():
    assert encoding.unpack("text", 7, 0.5, None) == Proposal("text", seconds=0.5)
    assert encoding.unpack("text", 7, 0.5, b"") == Proposal("text", seconds=0.5)


def test_a_damaged_payload_is_a_value_error():
    payload = encoding.pack(Proposal("a", (1, 2), (3, 4, 5), (-0.5,) * 3), "proposal")
    for cut in (1, encoding.HEAD.size - 1, encoding.HEAD.size + 3, len(payload) - 1):
        with pytest.raises(ValueError, match=r"buffer|payload"):
            encoding.unpack("a", 3, 0.0, payload[:cut])
    with pytest.raises(ValueError, match="3 tokens, where the reply has 4"):
        encoding.unpack("a", 4, 0.0, payload)


@given(st.lists(st.dictionaries(anything, anything, max_size=3), max_size=3))
def test_a_chat_comes_back_and_is_text_that_utf8_can_write(messages):
    text = encoding.chat_text(messages, "prompt")
    assert encoding.chat(text) == messages
    assert encoding.utf8(text) == text


def test_a_chat_is_readable_as_it_stands():
    assert encoding.chat_text([{"role": "user", "content": "für ρ"}], "p") == '[{"role": "user", "content": "für ρ"}]'


def test_numbers_and_states_are_strict_json():
    assert json.loads(encoding.numbers_text("metrics", {"a": 1.5, "b": float("nan")})) == {"a": 1.5, "b": None}
    assert encoding.states_text({"rng": [1, 2]}) == {"rng": "[1, 2]"}
    with pytest.raises(InputError, match=r"states\.rng = "):
        encoding.states_text({"rng": float("inf")})
    with pytest.raises(InputError, match=r"metrics = .* numbers by name"):
        encoding.numbers_text("metrics", {"a": "high"})
