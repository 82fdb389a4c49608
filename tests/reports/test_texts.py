import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.reports.texts import Packer, unpack


@given(st.lists(st.text(), min_size=1))
def test_what_is_packed_comes_out_again(texts):
    packer = Packer()
    numbers = [packer.number(text, 10_000) for text in texts]
    found = unpack(packer.pack())
    assert [found[number] for number in numbers] == [text.encode("utf-8", "replace").decode() for text in texts]


def test_equal_texts_are_kept_once_and_a_changed_line_costs_a_line():
    packer = Packer()
    script = [f"line {number} of {random.Random(number).random()}" for number in range(200)]
    assert packer.number("\n".join(script), 10**6) == packer.number("\n".join(script), 10**6) == 0
    alone = packer.pack().size
    for place in range(100):
        packer.number("\n".join([*script[:place], f"changed {place}", *script[place + 1 :]]), 10**6)
    assert packer.pack().size < 1.5 * alone


@pytest.mark.parametrize(("tail", "kept"), [(False, "abc"), (True, "hij")])
def test_a_text_that_is_too_long_is_cut_and_says_so(tail, kept):
    packer = Packer()
    packer.number("abcdefghij", 3, tail=tail)
    (text,) = unpack(packer.pack())
    assert kept in text
    assert "10 characters" in text
    assert "the run log has all" in text


def test_lone_surrogates_become_question_marks():
    packer = Packer()
    packer.number("a\ud800b", 10)
    assert unpack(packer.pack()) == ["a?b"]
